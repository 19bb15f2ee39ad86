//! Keys and credentials in files that are about to leave.
//!
//! A name says little: keys stand in notes, in test data, in configuration. So the bytes are looked
//! through for private keys and for the shapes of well-known credentials. Each rule is a shape that
//! ordinary text does not have by chance: a fixed beginning and enough random characters behind
//! it. Placeholders (few different characters, `EXAMPLE`) are let pass. A password that looks like
//! a word is not found; nothing could.
//!
//! A finding is the name of a rule and a line, never the match: refusals are shown and recorded.
//! Time is linear: each look from a position is bounded.

use crate::crypto::keyfile::parse_key_text;

/// Findings that are kept.
pub const MAX_FINDINGS: usize = 10;

/// A secret in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretFound {
    /// The rule, by its name.
    pub rule: &'static str,
    /// The line, from 1.
    pub line: usize,
}

/// Characters behind the fixed beginning.
#[derive(Clone, Copy)]
enum Class {
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `-` and `_`.
    Url,
    /// Capitals and digits.
    Upper,
    /// Lower-case hexadecimal digits.
    Hex,
}

impl Class {
    const fn has(self, byte: u8) -> bool {
        match self {
            Class::Alnum => byte.is_ascii_alphanumeric(),
            Class::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Class::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Class::Hex => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
        }
    }
}

struct Shape {
    rule: &'static str,
    prefix: &'static [u8],
    class: Class,
    min: usize,
    max: usize,
}

/// Longest run that is counted.
const RUN: usize = 512;

const fn shape(
    rule: &'static str,
    prefix: &'static [u8],
    class: Class,
    min: usize,
    max: usize,
) -> Shape {
    Shape {
        rule,
        prefix,
        class,
        min,
        max,
    }
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    shape("aws-access-key", b"AKIA", Class::Upper, 16, 16),
    shape("aws-access-key", b"ASIA", Class::Upper, 16, 16),
    shape("github-token", b"ghp_", Class::Alnum, 36, RUN),
    shape("github-token", b"gho_", Class::Alnum, 36, RUN),
    shape("github-token", b"ghu_", Class::Alnum, 36, RUN),
    shape("github-token", b"ghs_", Class::Alnum, 36, RUN),
    shape("github-token", b"ghr_", Class::Alnum, 36, RUN),
    shape("github-token", b"github_pat_", Class::Url, 60, RUN),
    shape("gitlab-token", b"glpat-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxb-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxp-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxa-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxr-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxe-", Class::Url, 20, RUN),
    shape("slack-token", b"xoxs-", Class::Url, 20, RUN),
    shape("slack-token", b"xapp-", Class::Url, 20, RUN),
    shape("slack-webhook", b"hooks.slack.com/services/T", Class::Upper, 6, RUN),
    shape("google-api-key", b"AIza", Class::Url, 35, 35),
    shape("google-oauth", b"GOCSPX-", Class::Url, 24, RUN),
    shape("google-oauth", b"ya29.", Class::Url, 40, RUN),
    shape("npm-token", b"npm_", Class::Alnum, 36, 36),
    shape("pypi-token", b"pypi-AgE", Class::Url, 50, RUN),
    shape("docker-token", b"dckr_pat_", Class::Url, 24, RUN),
    shape("stripe-key", b"sk_live_", Class::Alnum, 20, RUN),
    shape("stripe-key", b"rk_live_", Class::Alnum, 20, RUN),
    shape("anthropic-key", b"sk-ant-", Class::Url, 32, RUN),
    shape("openai-key", b"sk-proj-", Class::Url, 32, RUN),
    shape("openai-key", b"sk-", Class::Alnum, 40, RUN),
    shape("huggingface-token", b"hf_", Class::Alnum, 34, 40),
    shape("digitalocean-token", b"dop_v1_", Class::Hex, 64, 64),
    shape("vault-token", b"hvs.", Class::Url, 24, RUN),
    shape("shopify-token", b"shpat_", Class::Hex, 32, 32),
    shape("age-secret-key", b"AGE-SECRET-KEY-1", Class::Upper, 50, RUN),
    shape("age-secret-key", b"AGE-SECRET-KEY-PQ-1", Class::Upper, 50, RUN),
    // The base64 of every OpenSSH private key begins with its magic word.
    shape("openssh-private-key", b"b3BlbnNzaC1rZXktdjEA", Class::Alnum, 12, RUN),
];

type Special = fn(&[u8]) -> bool;

/// Shapes that need more than a run of characters: the beginning, the rule, the look.
#[rustfmt::skip]
const SPECIAL: &[(&[u8], &str, Special)] = &[
    (b"-----BEGIN ", "pem-private-key", pem),
    (b"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "ssh2-private-key", ssh2),
    // The base64 of a frame, as cluster configurations have it.
    (b"LS0tLS1CRUdJ", "encoded-private-key", encoded),
    (b"PuTTY-User-Key-File-", "putty-private-key", putty),
    (b"untrusted comment: ", "minisign-secret-key", minisign),
    (b"PrivateKey", "wireguard-private-key", wireguard),
    (b"eyJ", "jwt", jwt),
    (b"SG.", "sendgrid-key", sendgrid),
    (b"aws_secret_access_key", "aws-secret-key", aws_secret),
    (b"AWS_SECRET_ACCESS_KEY", "aws-secret-key", aws_secret),
    (b"AccountKey=", "azure-storage-key", azure),
    (b"_authToken", "npm-token", auth_token),
    (b"\"d\"", "jwk-private-key", jwk),
    (b"postgres", "url-with-password", url),
    (b"mysql", "url-with-password", url),
    (b"mongodb", "url-with-password", url),
    (b"redis", "url-with-password", url),
    (b"amqp", "url-with-password", url),
];

/// Looks through the bytes of a file: the first [`MAX_FINDINGS`] secrets, in order.
#[must_use]
pub fn find(bytes: &[u8]) -> Vec<SecretFound> {
    let mut finder = Finder::new();
    finder.scan(bytes, bytes.len());
    finder.length = bytes.len();
    finder.findings(bytes)
}

/// How far a look goes from where it begins, at most: the three parts of a token, and its dots.
const AHEAD: usize = 16 * 1024;

/// Looks through a file that comes in pieces, and finds what [`find`] does. Holds 16 KiB beside the
/// piece that it is given.
pub struct Finder {
    /// Bytes that a secret begins with.
    first: [bool; 256],
    found: Vec<SecretFound>,
    line: usize,
    /// The two bytes in front of `rest`.
    front: [u8; 2],
    /// What could not be judged yet, because what follows is missing.
    rest: Vec<u8>,
    length: usize,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder::new()
    }
}

impl Finder {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new() -> Finder {
        let mut first = [false; 256];
        for prefix in SHAPES
            .iter()
            .map(|s| s.prefix)
            .chain(SPECIAL.iter().map(|s| s.0))
        {
            if let Some(flag) = prefix.first().and_then(|b| first.get_mut(usize::from(*b))) {
                *flag = true;
            }
        }
        Finder {
            first,
            found: Vec::new(),
            line: 1,
            front: [b' '; 2],
            rest: Vec::new(),
            length: 0,
        }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.length = self.length.saturating_add(piece.len());
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(piece);
        let sure = bytes.len().saturating_sub(AHEAD);
        self.scan(&bytes, sure);
        bytes.drain(..sure);
        self.rest = bytes;
    }

    /// There is no more: the first [`MAX_FINDINGS`] secrets, in order.
    #[must_use]
    pub fn finish(mut self) -> Vec<SecretFound> {
        let bytes = std::mem::take(&mut self.rest);
        self.scan(&bytes, bytes.len());
        self.findings(&bytes)
    }

    /// Judges what begins in the first so many bytes.
    fn scan(&mut self, bytes: &[u8], until: usize) {
        for (at, byte) in bytes.iter().enumerate().take(until) {
            if self.found.len() >= MAX_FINDINGS {
                return;
            }
            if self.first.get(usize::from(*byte)) == Some(&true)
                && is_start(self.front, *byte)
                && let Some(rule) = look(bytes.get(at..).unwrap_or_default())
            {
                let line = self.line;
                self.found.push(SecretFound { rule, line });
            }
            if *byte == b'\n' {
                self.line = self.line.saturating_add(1);
            }
            let [_, last] = self.front;
            self.front = [last, *byte];
        }
    }

    /// What was found, in a file with such an end.
    fn findings(self, end: &[u8]) -> Vec<SecretFound> {
        let mut found = self.found;
        // All of it, then: a key file is short.
        if end.len() == self.length && is_own_key(end) {
            found.insert(
                0,
                SecretFound {
                    rule: "interlink-key",
                    line: 1,
                },
            );
            found.truncate(MAX_FINDINGS);
        }
        found
    }
}

/// Whether a secret may begin here: not inside a word. A line end that is spelled out is none, and
/// frames of keys begin anywhere.
const fn is_start(front: [u8; 2], byte: u8) -> bool {
    let [before, last] = front;
    byte == b'-'
        || !last.is_ascii_alphanumeric()
        || (before == b'\\' && matches!(last, b'n' | b'r' | b't'))
}

/// Our own key file: nothing but 43 characters of base64url. A public key looks the same; it is
/// said in the message that carries it, not sent as a file.
fn is_own_key(bytes: &[u8]) -> bool {
    const MOST: usize = 256;
    bytes.len() <= MOST && std::str::from_utf8(bytes).is_ok_and(|text| parse_key_text(text).is_ok())
}

/// The rule that the bytes meet at their beginning.
fn look(bytes: &[u8]) -> Option<&'static str> {
    let plain = SHAPES.iter().find(|shape| {
        bytes.strip_prefix(shape.prefix).is_some_and(|rest| {
            let run = take(rest, RUN, |b| shape.class.has(b));
            (shape.min..=shape.max).contains(&run.len()) && is_random(run)
        })
    });
    if let Some(shape) = plain {
        return Some(shape.rule);
    }
    SPECIAL
        .iter()
        .find(|(prefix, _, is)| bytes.strip_prefix(*prefix).is_some_and(is))
        .map(|(_, rule, _)| *rule)
}

fn take(bytes: &[u8], max: usize, is: impl Fn(u8) -> bool) -> &[u8] {
    let len = bytes.iter().take(max).take_while(|b| is(**b)).count();
    bytes.get(..len).unwrap_or_default()
}

fn after<'b>(bytes: &'b [u8], skip: &[u8]) -> &'b [u8] {
    bytes.get(skip.len()..).unwrap_or_default()
}

/// Not a placeholder: enough different characters, and no word that says so.
fn is_random(run: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in run {
        if let Some(flag) = seen.get_mut(usize::from(byte.to_ascii_lowercase())) {
            *flag = true;
        }
    }
    let different = seen.iter().filter(|flag| **flag).count();
    let lower = run.to_ascii_lowercase();
    let says = |word: &[u8]| lower.windows(word.len()).any(|w| w == word);
    different >= 6 && !says(b"example") && !says(b"xxxxx") && !says(b"placeholder")
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// A private key's frame with a body: code that only names the frame has none.
fn pem(rest: &[u8]) -> bool {
    /// Bytes in which the body must begin; headers of encrypted keys are shorter.
    const NEAR: usize = 400;
    let label = take(rest, 48, |b| {
        b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' '
    });
    if !label.ends_with(b"PRIVATE KEY") && !label.ends_with(b"PRIVATE KEY BLOCK") {
        return false;
    }
    let Some(body) = after(rest, label).strip_prefix(b"-----") else {
        return false;
    };
    let near = body.get(..NEAR).unwrap_or(body);
    let near = near
        .windows(8)
        .position(|w| w == b"-----END")
        .and_then(|end| near.get(..end))
        .unwrap_or(near);
    near.split(|b| !is_base64(*b)).any(|run| {
        run.len() >= 32
            && run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase)
            && run.iter().any(u8::is_ascii_digit)
            && is_random(run)
    })
}

/// A frame in base64; certificates have one too.
fn encoded(rest: &[u8]) -> bool {
    const LABEL: &[u8] = b"PRIVATE KEY";
    let head = rest.get(..40).unwrap_or_default();
    data_encoding::BASE64
        .decode(head)
        .is_ok_and(|label| label.windows(LABEL.len()).any(|w| w == LABEL))
}

/// As [`pem`], in the words of another maker.
fn ssh2(rest: &[u8]) -> bool {
    let near = rest.get(..400).unwrap_or(rest);
    near.split(|b| !is_base64(*b))
        .any(|run| run.len() >= 60 && is_random(run))
}

fn putty(rest: &[u8]) -> bool {
    const HEADER: &[u8] = b"\nPrivate-Lines: ";
    let near = rest.get(..2048).unwrap_or(rest);
    near.windows(HEADER.len()).any(|w| w == HEADER)
}

fn minisign(rest: &[u8]) -> bool {
    let comment = take(rest, 200, |b| b != b'\n');
    let says = comment.windows(10).any(|w| w == b"secret key");
    let next = after(rest, comment).strip_prefix(b"\n").unwrap_or_default();
    says && take(next, RUN, is_base64).len() >= 60
}

/// The value behind a name: spaces, `=` or `:`, a quote.
fn value(rest: &[u8]) -> Option<&[u8]> {
    let skip = |bytes: &'_ [u8]| take(bytes, 8, |b| matches!(b, b' ' | b'\t' | b'"' | b'\'')).len();
    let rest = rest.get(skip(rest)..)?;
    let (sign, rest) = rest.split_first()?;
    if !matches!(sign, b'=' | b':') {
        return None;
    }
    rest.get(skip(rest)..)
}

fn wireguard(rest: &[u8]) -> bool {
    value(rest).is_some_and(|value| {
        let run = take(value, RUN, is_base64);
        run.len() == 44 && run.ends_with(b"=") && is_random(run)
    })
}

fn aws_secret(rest: &[u8]) -> bool {
    value(rest).is_some_and(|value| {
        let run = take(value, RUN, is_base64);
        run.len() == 40 && is_random(run)
    })
}

fn azure(rest: &[u8]) -> bool {
    let run = take(rest, RUN, is_base64);
    run.len() >= 80 && is_random(run)
}

fn auth_token(rest: &[u8]) -> bool {
    value(rest).is_some_and(|value| {
        let run = take(value, RUN, |b| Class::Url.has(b));
        run.len() >= 16 && is_random(run)
    })
}

/// A private exponent or scalar; 256 bits at least.
fn jwk(rest: &[u8]) -> bool {
    value(rest).is_some_and(|value| {
        let run = take(value, RUN, |b| Class::Url.has(b));
        run.len() >= 43 && is_random(run)
    })
}

/// Three parts, the first two of JSON. The sample of the format's own pages is let pass.
fn jwt(rest: &[u8]) -> bool {
    const SAMPLE: &[u8] = b"eyJzdWIiOiIxMjM0NTY3ODkw";
    let url = |bytes| take(bytes, 4096, |b| Class::Url.has(b));
    let head = url(rest);
    let Some(claims) = after(rest, head).strip_prefix(b".") else {
        return false;
    };
    let body = url(claims);
    let Some(tail) = after(claims, body).strip_prefix(b".") else {
        return false;
    };
    head.len() >= 10
        && body.starts_with(b"eyJ")
        && body.len() >= 12
        && !body.starts_with(SAMPLE)
        && url(tail).len() >= 20
}

fn sendgrid(rest: &[u8]) -> bool {
    let id = take(rest, RUN, |b| Class::Url.has(b));
    let Some(secret) = after(rest, id).strip_prefix(b".") else {
        return false;
    };
    let secret = take(secret, RUN, |b| Class::Url.has(b));
    id.len() == 22 && secret.len() == 43 && is_random(secret)
}

/// `scheme://user:password@host` of a database, unless the host is this machine or an example, or
/// the password is a variable or the word.
fn url(rest: &[u8]) -> bool {
    let scheme = take(rest, 12, |b| b.is_ascii_alphanumeric() || b == b'+');
    let Some(rest) = after(rest, scheme).strip_prefix(b"://") else {
        return false;
    };
    let part = |bytes| {
        take(bytes, 200, |b| {
            b.is_ascii_graphic() && !b"/@:\"'`<>".contains(&b)
        })
    };
    let user = part(rest);
    let Some(rest) = after(rest, user).strip_prefix(b":") else {
        return false;
    };
    let password = part(rest);
    let Some(rest) = after(rest, password).strip_prefix(b"@") else {
        return false;
    };
    let host = part(rest).to_ascii_lowercase();
    let near = [b"localhost".as_slice(), b"127.", b"example", b"host"];
    let far = host.contains(&b'.')
        && !near.iter().any(|start| host.starts_with(start))
        && !host.windows(8).any(|w| w == b"example.");
    far && password.len() >= 8
        && !password.iter().any(|b| b"${}%*()".contains(b))
        && password.iter().any(u8::is_ascii_digit)
        && is_random(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&'static str> {
        find(text.as_bytes()).into_iter().map(|f| f.rule).collect()
    }

    /// Random-looking characters, made here so that no scanner of this repository finds them.
    fn noise(len: usize) -> String {
        "q7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs5Dn0GfAeUi"
            .chars()
            .cycle()
            .take(len)
            .collect()
    }

    fn upper(len: usize) -> String {
        noise(len).to_uppercase()
    }

    #[test]
    fn private_keys_are_found_in_every_frame() {
        for label in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "DSA PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
        ] {
            let key = format!("x\n-----BEGIN {label}-----\n{}\n", noise(64));
            let found = find(key.as_bytes());
            assert_eq!(found.len(), 1, "{label}");
            assert_eq!(
                found[0],
                SecretFound {
                    rule: "pem-private-key",
                    line: 2
                }
            );
        }
        let encrypted = format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233\n\n{}\n",
            noise(64)
        );
        assert_eq!(rules(&encrypted), ["pem-private-key"]);
        let pgp = format!(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\n{}\n",
            noise(64)
        );
        assert_eq!(rules(&pgp), ["pem-private-key"]);
        let json = format!(
            "{{\"k\":\"-----BEGIN PRIVATE KEY-----\\n{}\\n\"}}",
            noise(64)
        );
        assert_eq!(rules(&json), ["pem-private-key"]);
        let spelled = format!(
            "{{\"k\":\"a\\n-----BEGIN PRIVATE KEY-----\\n{}\\nghp_{}\"}}",
            noise(64),
            noise(36)
        );
        assert_eq!(rules(&spelled), ["pem-private-key", "github-token"]);
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
            let frame = format!("-----BEGIN {label}-----\n{}", noise(64));
            let yaml = format!(
                "client-key-data: {}\n",
                data_encoding::BASE64.encode(frame.as_bytes())
            );
            assert_eq!(rules(&yaml), ["encoded-private-key"], "{label}");
        }
        let age = format!("# made\nAGE-SECRET-KEY-1{}\n", upper(58));
        assert_eq!(rules(&age), ["age-secret-key"]);
        let openssh = format!("b3BlbnNzaC1rZXktdjEA{}", noise(50));
        assert_eq!(rules(&openssh), ["openssh-private-key"]);
        let putty = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n";
        assert_eq!(rules(putty), ["putty-private-key"]);
        let wireguard = format!("[Interface]\nPrivateKey = {}=\n", noise(43));
        assert_eq!(rules(&wireguard), ["wireguard-private-key"]);
        let minisign = format!(
            "untrusted comment: minisign encrypted secret key\n{}\n",
            noise(200)
        );
        assert_eq!(rules(&minisign), ["minisign-secret-key"]);
        let jwk = format!("{{\"kty\":\"OKP\",\"d\" : \"{}\"}}", noise(43));
        assert_eq!(rules(&jwk), ["jwk-private-key"]);
    }

    #[test]
    fn what_comes_in_pieces_is_found_as_if_it_came_at_once() {
        let jwt = format!("eyJ{}.eyJ{}.{}", noise(3000), noise(4000), noise(4000));
        let mut text = String::new();
        for n in 0..3 {
            text.push_str(&"some words and\n".repeat(1500 + n));
            text.push_str(&format!("ghp_{} {jwt}\n", noise(36)));
        }
        let whole = find(text.as_bytes());
        assert_eq!(whole.len(), 6, "{whole:?}");
        for size in [1, 7, 4096, AHEAD - 1, AHEAD, AHEAD + 1, text.len()] {
            let mut finder = Finder::new();
            for piece in text.as_bytes().chunks(size) {
                finder.feed(piece);
                assert!(finder.rest.len() <= AHEAD, "{size}");
            }
            assert_eq!(finder.finish(), whole, "{size}");
        }
        let seed = crate::types::secret::Secret::new([7u8; 32]);
        let key = crate::crypto::keyfile::print_key_text(&seed);
        let mut finder = Finder::new();
        for piece in key.expose().as_bytes().chunks(5) {
            finder.feed(piece);
        }
        assert_eq!(finder.finish(), find(key.expose().as_bytes()));
    }

    #[test]
    fn our_own_key_file_is_found() {
        let seed = crate::types::secret::Secret::new([7u8; 32]);
        let text = crate::crypto::keyfile::print_key_text(&seed);
        assert_eq!(rules(text.expose()), ["interlink-key"]);
        assert_eq!(rules(&format!("key: {}", text.expose())), [] as [&str; 0]);
    }

    #[test]
    fn well_known_credentials_are_found_by_name_and_line() {
        for (rule, text) in [
            ("aws-access-key", format!("AKIA{}", upper(16))),
            (
                "aws-secret-key",
                format!("aws_secret_access_key = {}", noise(40)),
            ),
            (
                "aws-secret-key",
                format!("AWS_SECRET_ACCESS_KEY=\"{}\"", noise(40)),
            ),
            ("github-token", format!("ghp_{}", noise(36))),
            ("github-token", format!("github_pat_{}", noise(82))),
            ("gitlab-token", format!("glpat-{}", noise(20))),
            ("slack-token", format!("xoxb-123-456-{}", noise(24))),
            (
                "slack-webhook",
                format!("https://hooks.slack.com/services/T{}/B1/x", upper(9)),
            ),
            ("google-api-key", format!("AIza{}", noise(35))),
            ("google-oauth", format!("GOCSPX-{}", noise(28))),
            ("npm-token", format!("npm_{}", noise(36))),
            (
                "npm-token",
                format!("//registry.example.org/:_authToken={}", noise(30)),
            ),
            ("pypi-token", format!("pypi-AgE{}", noise(80))),
            ("stripe-key", format!("sk_live_{}", noise(24))),
            ("anthropic-key", format!("sk-ant-api03-{}", noise(80))),
            ("openai-key", format!("sk-{}", noise(48))),
            (
                "jwt",
                format!("eyJ{}.eyJ{}.{}", noise(20), noise(20), noise(43)),
            ),
            ("sendgrid-key", format!("SG.{}.{}", noise(22), noise(43))),
            ("azure-storage-key", format!("AccountKey={}==", noise(86))),
            (
                "url-with-password",
                format!("postgres://app:{}@db7.acme.net/x", noise(12)),
            ),
        ] {
            for whole in [format!("a\nb = \"{text}\"\n"), format!("\n{text}")] {
                let found = find(whole.as_bytes());
                assert_eq!(found, [SecretFound { rule, line: 2 }], "{whole:?}");
            }
        }
    }

    #[test]
    fn placeholders_and_mentions_are_let_pass() {
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { refuse() }\nlet end = \"-----END PRIVATE KEY-----\";",
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAq7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs5Dn0GfAeUiq7Zk2Xv9L=\n",
            "-----BEGIN CERTIFICATE-----\nMIIBq7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs5Dn0GfAeUiq7Zk2Xv9L\n",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkoifQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
            "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURCVENDQWUyZ0F3SUJBZ0lJ",
            "_authToken=${NPM_TOKEN}",
            "postgres://user:password@localhost/db",
            "postgres://user:${PASSWORD}@db.acme.net/x",
            "postgres://user:password@db.acme.net/x",
            "redis://cache.acme.net:6379",
            "let PrivateKey = load(); // a 44 character key",
            "task-sk-learn and sk-spinner-double-bounce-fade",
            "sha256: 4d5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
            "\"integrity\": \"sha512-q7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs5Dn0GfAeUiq7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs==\"",
            "AGE-SECRET-KEY-1 is how the line begins; ghp_ and AKIA are prefixes",
            "untrusted comment: signature from a secret key\n",
            "{\"d\": \"M0 0L10 10\", \"kty\": 1}",
        ] {
            assert_eq!(rules(text), [] as [&str; 0], "{text}");
        }
    }

    #[test]
    fn our_own_sources_raise_no_alarm() {
        for text in [
            include_str!("mod.rs"),
            include_str!("names.rs"),
            include_str!("scan.rs"),
            include_str!("secrets.rs"),
            include_str!("../../keystore.rs"),
            include_str!("../../crypto/sign.rs"),
            include_str!("../../../Cargo.toml"),
            include_str!("../../../Cargo.lock"),
            include_str!("../../../README.md"),
            include_str!("../../../docs/threat-model.md"),
        ] {
            assert_eq!(rules(text), [] as [&str; 0], "{}", &text[..60]);
        }
    }

    #[test]
    fn findings_are_bounded_and_so_is_the_time() {
        let many = format!("ghp_{}\n", noise(36)).repeat(50);
        assert_eq!(find(many.as_bytes()).len(), MAX_FINDINGS);
        // Beginnings without an end, each of which could make a scanner run to the end.
        for part in [
            "eyJ",
            "-----BEGIN ",
            "ghp_",
            "SG.",
            "postgres://a:",
            "\"d\":",
        ] {
            assert_eq!(find(part.repeat(400_000 / part.len()).as_bytes()), []);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_looked_through_too() {
        let mut bytes = vec![0xff, 0x00, b'\n'];
        bytes.extend_from_slice(format!("ghp_{}", noise(36)).as_bytes());
        assert_eq!(
            find(&bytes),
            [SecretFound {
                rule: "github-token",
                line: 2
            }]
        );
    }
}
