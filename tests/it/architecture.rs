//! The house rules, read from the source text itself.
//!
//! Floors rot one convenient `use` at a time, and no compiler objects. This test reads every path
//! that starts at the crate root under `src/` and `migrations/`, compares it with the table of
//! floors, and names the offending line. It also holds what else is a rule of the tree and not of
//! the language: one owner per foreign crate, no clock and no randomness below the edges, ASCII
//! source, files that fit in a head.
//!
//! A gate that cannot fail proves nothing: every rule has a fixture below that breaks it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::lexer::{Kind, Token, lex};

/// Top-level module and its floor. A module sees itself and strictly lower floors.
const FLOORS: &[(&str, u8)] = &[
    ("types", 0),
    ("crypto", 1),
    ("wire", 1),
    ("codec", 1),
    ("event", 2),
    ("domain", 3),
    ("keystore", 4),
    ("store", 4),
    ("system", 4),
    ("bus", 5),
    ("agent", 5),
    ("testkit", 5),
    ("cli", 6),
    ("bin", 7),
];

/// The one place where a module rests on its sibling: signed objects are made of keys and
/// signatures, and both stay below everything that reads or stores them.
const STANDS_ON: &[(&str, &str)] = &[("wire", "crypto")];

/// Foreign crate (as spelled in Rust) and the only places whose production code may name it.
const OWNERS: &[(&str, &[&str])] = &[
    ("redb", &["src/store/", "src/testkit/", "migrations/"]),
    ("bincode", &["src/codec/body.rs"]),
    ("crc32fast", &["src/codec/"]),
    ("ed25519_dalek", &["src/crypto/"]),
    ("x25519_dalek", &["src/crypto/"]),
    ("sha2", &["src/crypto/"]),
    ("hkdf", &["src/crypto/"]),
    ("hmac", &["src/crypto/"]),
    ("pbkdf2", &["src/crypto/"]),
    ("aes_gcm", &["src/crypto/"]),
    ("chacha20poly1305", &["src/crypto/"]),
    ("spake2", &["src/crypto/pake.rs"]),
    ("axum", &["src/bus/"]),
    ("tower", &["src/bus/"]),
    ("tower_http", &["src/bus/"]),
    ("hyper", &["src/bus/"]),
    ("hyper_util", &["src/bus/"]),
    ("http_body_util", &["src/bus/"]),
    (
        "reqwest",
        &[
            "src/agent/client.rs",
            "src/agent/connect.rs",
            "src/agent/bond/relay.rs",
        ],
    ),
    ("rustls", &["src/agent/connect.rs"]),
    ("rustls_graviola", &["src/agent/connect.rs"]),
    ("rustls_platform_verifier", &["src/agent/connect.rs"]),
    ("graviola", &["src/agent/connect.rs"]),
    ("rmcp", &["src/agent/mcp/"]),
    ("ureq", &["src/cli/admin/endpoint.rs", "src/cli/doctor/"]),
    ("signal_hook", &["src/cli/"]),
    ("clap", &["src/cli/"]),
    ("etcetera", &["src/cli/"]),
    ("tracing_subscriber", &["src/cli/"]),
    ("tokio", &["src/bus/", "src/agent/", "src/cli/"]),
    ("getrandom", &["src/bus/", "src/agent/", "src/cli/"]),
];

/// Names that reach the outside world: the name, the highest floor that must not use it, and why.
const WORLD: &[(&str, u8, &str)] = &[
    (
        "SystemTime",
        4,
        "wall-clock time enters at the edges, as a value",
    ),
    ("Instant", 3, "the domain is told the time, it never asks"),
];

/// The one file below the edges that asks for the time of day, for them.
const CLOCK: &str = "src/system.rs";

/// Modules of `std` that do input or output, closed to the domain and everything under it.
const WORLD_STD: &[&str] = &["fs", "net", "process", "thread", "os"];
const HIGHEST_PURE_FLOOR: u8 = 3;

/// Lines with code on them, test modules not counted.
const MAX_CODE_LINES: usize = 500;
const MAX_BIN_LINES: usize = 30;

/// The one file that may include modules from another folder.
const SANCTIONED_PATH_ATTRIBUTE: &str = "src/store/migrate.rs";

#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

fn floor_of(module: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, floor)| *floor)
}

/// One source file under inspection.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    tokens: Vec<Token>,
    found: Vec<Violation>,
}

impl<'a> Source<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        Self {
            path,
            text,
            tokens: lex(text),
            found: Vec::new(),
        }
    }

    fn report(&mut self, line: usize, rule: impl Into<String>) {
        self.found.push(Violation {
            file: self.path.to_owned(),
            line,
            rule: rule.into(),
        });
    }

    /// The top-level module a file belongs to; `None` for the crate root itself.
    fn module(&self) -> Option<&'a str> {
        if self.path.starts_with("migrations/") {
            return Some("store");
        }
        let rest = self.path.strip_prefix("src/")?;
        let top = rest.split('/').next()?;
        let top = top.strip_suffix(".rs").unwrap_or(top);
        (top != "lib").then_some(top)
    }

    /// How many modules lie between the crate root and this file, itself included.
    fn depth(&self) -> usize {
        if self.path.starts_with("migrations/") {
            return 3;
        }
        let parts = self.path.trim_start_matches("src/").split('/').count();
        if self.path.ends_with("/mod.rs") {
            parts - 1
        } else {
            parts
        }
    }

    fn is_test_file(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at)
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.token(at)
            .is_some_and(|t| t.text == text && t.kind != Kind::Text)
    }

    fn before(&self, at: usize, text: &str) -> bool {
        at.checked_sub(1).is_some_and(|i| self.is(i, text))
    }

    /// Heads of the paths that continue after `root ::` at token `at`: one, or each of a group.
    fn heads(&self, at: usize) -> Vec<(String, usize)> {
        let head = |i: usize| self.token(i).map(|t| (t.text.clone(), t.line));
        if !self.is(at, "{") {
            return head(at).into_iter().collect();
        }
        let (mut heads, mut nesting, mut i) = (Vec::new(), 0usize, at);
        loop {
            match self.token(i).map(|t| t.text.as_str()) {
                None => return heads,
                Some("{") => {
                    nesting += 1;
                    if nesting == 1 && !self.is(i + 1, "}") {
                        heads.extend(head(i + 1));
                    }
                }
                Some("}") => {
                    nesting -= 1;
                    if nesting == 0 {
                        return heads;
                    }
                }
                Some(",") if nesting == 1 && !self.is(i + 1, "}") => heads.extend(head(i + 1)),
                Some(_) => {}
            }
            i += 1;
        }
    }

    fn check_floors(&mut self) {
        let Some(own) = self.module() else { return };
        let Some(own_floor) = floor_of(own) else {
            self.report(
                1,
                format!("module `{own}` has no floor; give it one in FLOORS"),
            );
            return;
        };
        let root = if own == "bin" { "interlink" } else { "crate" };
        for at in 0..self.tokens.len() {
            if !self.is(at, root) || !self.is(at + 1, "::") {
                continue;
            }
            let gated = self.token(at).is_some_and(|t| t.test || t.testkit);
            for (head, line) in self.heads(at + 2) {
                if head == own
                    || STANDS_ON.contains(&(own, head.as_str()))
                    || (head == "testkit" && (gated || own == "testkit"))
                {
                    continue;
                }
                let rule = match floor_of(&head) {
                    None => format!("`{root}::{head}` is no module with a floor"),
                    Some(_) if head == "testkit" => {
                        "`testkit` is for tests; production code must not see it".to_owned()
                    }
                    Some(floor) if floor >= own_floor => {
                        format!("`{own}` (F{own_floor}) must not import `{head}` (F{floor})")
                    }
                    Some(_) => continue,
                };
                self.report(line, rule);
            }
        }
    }

    /// `super` chains that reach the crate root hide an import from the floors table.
    fn check_super(&mut self) {
        if self.module().is_none() {
            return;
        }
        let file_depth = self.depth();
        let mut inline: Vec<usize> = Vec::new();
        let mut braces = 0usize;
        for at in 0..self.tokens.len() {
            if self.is(at, "{") {
                braces += 1;
                if at >= 2 && self.is(at - 2, "mod") {
                    inline.push(braces);
                }
            } else if self.is(at, "}") {
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
                braces = braces.saturating_sub(1);
            }
            if !self.is(at, "super") || (at >= 2 && self.is(at - 2, "super")) {
                continue;
            }
            let mut length = 1;
            while self.is(at + 2 * length, "super") {
                length += 1;
            }
            let continues = self.is(at + 2 * length - 1, "::");
            if continues && length >= file_depth + inline.len() {
                let line = self.token(at).map_or(0, |t| t.line);
                self.report(line, "`super` reaches the crate root; write `crate::`");
            }
        }
    }

    fn check_owners(&mut self) {
        if self.module().is_none() || self.is_test_file() {
            return;
        }
        for at in 0..self.tokens.len() {
            let Some(token) = self.token(at) else {
                continue;
            };
            let (line, test) = (token.line, token.test);
            let Some((name, owners)) = OWNERS.iter().find(|(name, _)| self.is(at, name)) else {
                continue;
            };
            let global = self.before(at, "::") && !(at >= 2 && self.is_name(at - 2));
            let starts_path = global || !(self.before(at, "::") || self.before(at, "."));
            let used = self.is(at + 1, "::") || self.before(at, "use") || self.before(at, "crate");
            if test || !starts_path || !used || owners.iter().any(|o| self.path.starts_with(o)) {
                continue;
            }
            let rule = format!("`{name}` belongs to {}", owners.join(", "));
            self.report(line, rule);
        }
    }

    fn is_name(&self, at: usize) -> bool {
        self.token(at)
            .is_some_and(|t| t.kind == Kind::Name && t.text != "use")
    }

    fn check_world(&mut self) {
        let Some(floor) = self.module().and_then(floor_of) else {
            return;
        };
        if self.is_test_file() {
            return;
        }
        for at in 0..self.tokens.len() {
            let Some(token) = self.token(at).filter(|t| !t.test) else {
                continue;
            };
            let line = token.line;
            for (name, highest, why) in WORLD {
                if floor <= *highest && self.is(at, name) && self.path != CLOCK {
                    self.report(line, format!("`{name}` below F{}: {why}", highest + 1));
                }
            }
            if floor <= HIGHEST_PURE_FLOOR && self.is(at, "std") && self.is(at + 1, "::") {
                for (head, line) in self.heads(at + 2) {
                    if WORLD_STD.contains(&head.as_str()) {
                        self.report(line, format!("`std::{head}` below F4: no IO in the domain"));
                    }
                }
            }
        }
    }

    fn check_path_attribute(&mut self) {
        for at in 0..self.tokens.len() {
            let attribute = self.is(at, "path") && self.before(at, "[") && self.is(at + 1, "=");
            if attribute && self.path != SANCTIONED_PATH_ATTRIBUTE {
                let line = self.token(at).map_or(0, |t| t.line);
                self.report(
                    line,
                    format!("`#[path]` outside {SANCTIONED_PATH_ATTRIBUTE}"),
                );
            }
        }
    }

    fn check_ascii(&mut self) {
        let offending: Vec<usize> = self
            .text
            .lines()
            .enumerate()
            .filter(|(_, l)| !l.is_ascii())
            .map(|(i, _)| i + 1)
            .collect();
        for line in offending {
            self.report(line, "source is ASCII; write \\u{..} for anything else");
        }
    }

    fn check_length(&mut self) {
        if self.is_test_file() {
            return;
        }
        let mut lines: Vec<usize> = self
            .tokens
            .iter()
            .filter(|t| !t.test)
            .map(|t| t.line)
            .collect();
        lines.dedup();
        let limit = if self.path.starts_with("src/bin/") {
            MAX_BIN_LINES
        } else {
            MAX_CODE_LINES
        };
        if let Some(first_over) = lines.get(limit).copied() {
            let rule = format!("{} lines of code, more than {limit}", lines.len());
            self.report(first_over, rule);
        }
    }
}

/// Every rule, over one file.
fn inspect(path: &str, text: &str) -> Vec<Violation> {
    let mut source = Source::new(path, text);
    source.check_ascii();
    if path.starts_with("src/") || path.starts_with("migrations/") {
        source.check_floors();
        source.check_super();
        source.check_owners();
        source.check_world();
        source.check_path_attribute();
        source.check_length();
    }
    source.found
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable folder entry").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn the_tree_keeps_its_floors_and_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "migrations", "tests", "benches"] {
        rust_files(&root.join(folder), &mut files);
    }
    files.sort();
    assert!(
        files.iter().any(|f| f.ends_with("src/lib.rs")),
        "found no crate root under {}",
        root.display()
    );
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a readable source file");
        let name = file
            .strip_prefix(root)
            .expect("a path under the root")
            .to_string_lossy();
        found.extend(
            inspect(&name.replace('\\', "/"), &text)
                .iter()
                .map(ToString::to_string),
        );
    }
    assert!(
        found.is_empty(),
        "{} broken rules:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The lines at which a fixture breaks a rule whose text contains `rule`.
fn lines(path: &str, text: &str, rule: &str) -> Vec<usize> {
    inspect(path, text)
        .iter()
        .filter(|v| v.rule.contains(rule))
        .map(|v| v.line)
        .collect()
}

#[test]
fn an_import_from_a_higher_floor_is_found() {
    let text = "use crate::types::Seq;\nuse crate::store::Store;\n";
    assert_eq!(
        lines("src/domain/gate.rs", text, "must not import `store`"),
        [2]
    );
}

#[test]
fn a_sibling_that_may_stand_on_another_does_so_one_way_only() {
    let text = "use crate::crypto::sign;\n";
    assert_eq!(inspect("src/wire/pair.rs", text), []);
    assert_eq!(
        lines("src/codec/frame.rs", text, "must not import `crypto`"),
        [1]
    );
    let text = "use crate::wire::pair;\n";
    assert_eq!(
        lines("src/crypto/sign.rs", text, "must not import `wire`"),
        [1]
    );
}

#[test]
fn siblings_are_found_in_groups_and_inline_paths() {
    let text = "use crate::{\n    store::{Store, Receipt},\n    bus::Router,\n};\n\
                fn f() {\n    crate::bus::serve();\n}\n";
    assert_eq!(
        lines("src/agent/pump.rs", text, "must not import `bus`"),
        [3, 6]
    );
    assert_eq!(inspect("src/cli/bus.rs", text), []);
}

#[test]
fn imports_in_unit_tests_obey_the_floors_too() {
    let text = "#[cfg(test)]\nmod tests {\n    use crate::bus::Router;\n}\n";
    assert_eq!(
        lines("src/store/open.rs", text, "must not import `bus`"),
        [3]
    );
}

#[test]
fn comments_and_strings_are_not_imports() {
    let text = "//! See `crate::bus`.\n/* crate::bus /* nested */ crate::cli */\n\
                const A: &str = \"crate::bus\";\nconst B: &str = r#\"crate::\"bus\"#;\n\
                const C: char = '\"'; fn f<'a>(x: &'a str) -> &'a str { x }\n";
    assert_eq!(inspect("src/types/id.rs", text), []);
}

#[test]
fn a_path_after_a_quote_character_is_still_read() {
    let text = "const C: char = '\"';\nconst D: u8 = b'\\'';\nuse crate::bus::X;\n";
    assert_eq!(lines("src/types/id.rs", text, "must not import `bus`"), [3]);
}

#[test]
fn an_unknown_module_needs_a_floor() {
    assert_eq!(
        lines("src/attic/mod.rs", "fn f() {}\n", "has no floor"),
        [1]
    );
    assert_eq!(
        lines(
            "src/store/open.rs",
            "\nuse crate::attic::X;\n",
            "no module with"
        ),
        [2]
    );
    assert_eq!(
        lines("src/store/open.rs", "use crate::*;\n", "no module with"),
        [1]
    );
}

#[test]
fn super_chains_to_the_root_are_found() {
    let text = "use super::super::bus::Router;\n";
    assert_eq!(
        lines("src/store/open.rs", text, "reaches the crate root"),
        [1]
    );
    assert_eq!(
        lines(
            "src/store/mod.rs",
            "use super::bus;\n",
            "reaches the crate root"
        ),
        [1]
    );
    let text = "mod tests {\n    use super::*;\n    use super::super::x;\n}\nuse super::a::b;\n";
    assert_eq!(inspect("src/store/open.rs", text), []);
}

#[test]
fn production_code_does_not_see_the_testkit() {
    let text = "use crate::testkit::FakeClock;\n\
                #[cfg(test)]\nmod tests {\n    use crate::testkit::FakeClock;\n}\n\
                #[cfg(feature = \"testkit\")]\nuse crate::testkit::Other;\n";
    assert_eq!(lines("src/cli/bus.rs", text, "testkit"), [1]);
}

#[test]
fn a_binary_sees_every_floor_and_stays_thin() {
    assert_eq!(
        inspect(
            "src/bin/interlink-bus.rs",
            "fn main() { interlink::cli::bus(); }\n"
        ),
        []
    );
    let long = "fn f() {}\n".repeat(MAX_BIN_LINES + 1);
    assert_eq!(
        lines("src/bin/x.rs", &long, "lines of code"),
        [MAX_BIN_LINES + 1]
    );
}

#[test]
fn a_foreign_crate_outside_its_owner_is_found() {
    let text = "use redb::Database;\nfn f(d: ::redb::Database) {}\nuse redb as r;\n";
    assert_eq!(
        lines("src/bus/router.rs", text, "`redb` belongs to"),
        [1, 2, 3]
    );
    assert_eq!(inspect("src/store/open.rs", text), []);
    let text = "#[derive(clap::Parser)]\nstruct A;\n";
    assert_eq!(lines("src/agent/config.rs", text, "`clap` belongs to"), [1]);
    assert_eq!(
        lines("src/codec/frame.rs", "use bincode::config;\n", "`bincode`"),
        [1]
    );
}

#[test]
fn a_word_that_only_looks_like_a_crate_is_left_alone() {
    let text = "use crate::store::redb::X;\nlet redb = 1;\nself.redb::<u8>();\nmod redb_tables;\n";
    assert_eq!(inspect("src/bus/router.rs", text), []);
    let test = "#[cfg(test)]\nmod tests {\n    use tokio::runtime::Runtime;\n}\n";
    assert_eq!(inspect("src/store/tail.rs", test), []);
}

#[test]
fn clocks_randomness_and_io_below_the_edges_are_found() {
    let text = "use std::time::{Duration, SystemTime};\nfn f() { getrandom::fill(b); }\n";
    assert_eq!(
        lines("src/store/open.rs", text, "`SystemTime` below F5"),
        [1]
    );
    assert_eq!(lines("src/store/open.rs", text, "`getrandom` belongs"), [2]);
    assert_eq!(inspect("src/cli/keygen.rs", text), []);
    let text = "use std::time::SystemTime;\n";
    assert_eq!(inspect("src/system.rs", text), []);
    let text = "use std::{\n    fs::File,\n    time::Instant,\n};\n";
    assert_eq!(lines("src/domain/gate.rs", text, "below F4"), [2, 3]);
    assert_eq!(inspect("src/store/open.rs", text), []);
}

#[test]
fn a_path_attribute_outside_the_migrations_is_found() {
    let text = "#[path = \"x.rs\"]\nmod x;\n";
    assert_eq!(lines("src/store/open.rs", text, "`#[path]` outside"), [1]);
    assert_eq!(inspect("src/store/migrate.rs", text), []);
}

#[test]
fn text_that_is_not_ascii_is_found() {
    assert_eq!(
        lines("tests/it/x.rs", "fn f() {}\n// caf\u{e9}\n", "ASCII"),
        [2]
    );
}

#[test]
fn long_files_are_found_and_tests_do_not_count() {
    let long = "fn f() {}\n\n// a comment\n".repeat(MAX_CODE_LINES);
    assert_eq!(inspect("src/types/id.rs", &long), []);
    let longer = format!("{long}fn g() {{}}\n");
    assert_eq!(
        lines("src/types/id.rs", &longer, "501 lines of code"),
        [3 * MAX_CODE_LINES + 1]
    );
    let tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\nfn g() {{}}\n");
    assert_eq!(inspect("src/types/id.rs", &tests), []);
}
