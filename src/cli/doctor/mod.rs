//! `interlink-mcp doctor`: what stands in the way of messages, and how to mend it.
//!
//! It looks and changes nothing: no file is made, nobody is announced, no mail is fetched.
//!
//! Exit codes: 0 nothing is broken, 1 something is, 2 wrong usage.

mod clock;
mod hosts;
mod peers;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::agent::client::{RelayClient, RelayUrl};
use crate::agent::config::{StorePlace, parse_relays};
use crate::agent::connect::Authorities;
use crate::agent::lifecycle::is_alive;
use crate::domain::query::agent as query;
use crate::keystore::{self, KeyPermissions};
use crate::store::{Mode, ReadError, Reader};
use crate::system::SystemClock;
use crate::types::id::PublicKey;
use crate::types::limit::{MAX_FUTURE_MS, MAX_ROSTER_BYTES};
use crate::types::time::Clock as _;

/// How long a relay may take.
const ANSWER: Duration = Duration::from_secs(4);
/// How long opening the store may take: a process that is frozen in a write keeps others out.
const OPEN: Duration = Duration::from_secs(5);
/// From which difference of the clocks on it is mentioned, in milliseconds.
const SKEW_WORTH_SAYING_MS: u64 = 5_000;

/// Check key, peers, store, relays and the hosts' wiring; say what to mend.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What is looked at.
pub(super) struct Patient<'a> {
    /// The key file.
    pub(super) key: PathBuf,
    /// Whether an open key file is accepted.
    pub(super) permissions: KeyPermissions,
    /// The allowlist.
    pub(super) peers: PathBuf,
    /// The store of an identity.
    pub(super) store: &'a dyn Fn(&PublicKey) -> Option<StorePlace>,
    /// The relays.
    pub(super) url: &'a str,
    /// Who vouches for those behind `https://`.
    pub(super) authorities: Authorities,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Hint,
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

impl Report {
    fn add(&mut self, name: &'static str, verdict: Verdict, found: String, mend: Option<&str>) {
        self.ok &= verdict != Verdict::Broken;
        self.checks.push(Check {
            name,
            verdict,
            found,
            mend: mend.map(ToOwned::to_owned),
        });
    }
}

/// Looks, and tells; whether nothing is broken.
///
/// # Errors
///
/// When standard output is closed.
pub(super) fn run(args: &DoctorArgs, patient: &Patient<'_>) -> io::Result<bool> {
    let mut report = Report {
        ok: true,
        checks: vec![],
    };
    let key = look_at_key(&mut report, patient);
    let listed = peers::look(&mut report, &patient.peers);
    if let Some(key) = key {
        look_at_store(&mut report, (patient.store)(&key), &listed);
    }
    look_at_relays(&mut report, patient.url, &patient.authorities);
    hosts::look(&mut report, &patient.key);
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.checks.iter().map(line).collect()
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(report.ok)
}

fn line(check: &Check) -> String {
    let mark = match check.verdict {
        Verdict::Ok => "ok    ",
        Verdict::Hint => "hint  ",
        Verdict::Broken => "BROKEN",
    };
    let mend = match &check.mend {
        Some(mend) => format!("       {:<8} -> {mend}\n", ""),
        None => String::new(),
    };
    format!("{mark} {:<8} {}\n{mend}", check.name, check.found)
}

fn look_at_key(report: &mut Report, patient: &Patient<'_>) -> Option<PublicKey> {
    match keystore::load(&patient.key, patient.permissions) {
        Ok(identity) => {
            let public = identity.public();
            let found = format!("{} is key {public}", patient.key.display());
            report.add("key", Verdict::Ok, found, None);
            Some(public)
        }
        // Its text says what to do.
        Err(e) => {
            report.add("key", Verdict::Broken, e.to_string(), None);
            None
        }
    }
}

fn look_at_store(report: &mut Report, place: Option<StorePlace>, listed: &peers::Listed) {
    let path = match place {
        Some(StorePlace::Shared(path)) => path,
        Some(StorePlace::Memory) => {
            let found = "kept in memory: gone when a session ends".to_owned();
            return report.add("store", Verdict::Hint, found, None);
        }
        Some(StorePlace::Exclusive(_)) => {
            let found = "one store a session; `interlink-admin` reads them".to_owned();
            return report.add("store", Verdict::Hint, found, None);
        }
        None => {
            let found = "no place for it is known".to_owned();
            return report.add("store", Verdict::Broken, found, Some("name one with --db"));
        }
    };
    if !path.exists() {
        let found = format!("{} does not exist; the server makes it", path.display());
        return report.add("store", Verdict::Hint, found, None);
    }
    let (sender, receiver) = mpsc::channel();
    let (owned, hash) = (path.clone(), listed.sha256);
    thread::spawn(move || {
        let _ = sender.send(examine(&owned, hash.as_ref()));
    });
    match receiver.recv_timeout(OPEN) {
        Ok(Ok((found, logged))) => {
            let mend = "interlink-admin verify proves it record by record";
            report.add("store", Verdict::Ok, found, Some(mend));
            peers::compare(report, listed, &logged);
        }
        Ok(Err(reason)) => {
            let found = format!("{}: {reason}", path.display());
            let mend = "interlink-admin status and verify tell more; docs/operations.md has what to do when";
            report.add("store", Verdict::Broken, found, Some(mend));
        }
        Err(_) => {
            let found = format!("{} is held by a process that does not move", path.display());
            let mend = "look for a stopped interlink-mcp (ps), and continue or end it";
            report.add("store", Verdict::Broken, found, Some(mend));
        }
    }
}

fn examine(path: &Path, listed: Option<&[u8; 32]>) -> Result<(String, peers::Logged), String> {
    let reader = Reader::open(path, Mode::Shared).map_err(|e| e.to_string())?;
    let look = || -> Result<(String, peers::Logged), ReadError> {
        let snapshot = reader.snapshot()?;
        let head = snapshot.head()?;
        let mut open = 0;
        let mut unread = 0;
        for lease in query::leases(&snapshot)? {
            let alive =
                |h: &crate::domain::projection::agent::Holder| is_alive(h.pid, h.process_start);
            open += usize::from(lease.row.holder.as_ref().is_some_and(alive));
            unread += query::unread_totals(&snapshot, &lease.session)?.messages;
        }
        let found = format!(
            "{} has {} records; {open} sessions run, {unread} messages are unread",
            path.display(),
            head.0
        );
        Ok((found, peers::Logged::read(&snapshot, listed)?))
    };
    look().map_err(|e| e.to_string())
}

fn look_at_relays(report: &mut Report, url: &str, authorities: &Authorities) {
    let relays = match parse_relays(url.split(',')) {
        Ok(relays) => relays,
        Err(e) => return report.add("relay", Verdict::Broken, e.to_string(), None),
    };
    let asked: Vec<_> = relays
        .into_iter()
        .map(|relay| {
            let url = relay.to_string();
            let thread = thread::spawn({
                let (url, authorities) = (url.clone(), authorities.clone());
                move || match relay.is_secure() {
                    true => ask_over_tls(relay, &authorities),
                    false => ask(&url),
                }
            });
            (url, thread)
        })
        .collect();
    for (url, thread) in asked {
        let answer = thread
            .join()
            .unwrap_or_else(|_| Err("no answer".to_owned()));
        match answer {
            Ok(date) => judge_clock(report, &url, date),
            Err(reason) => {
                let found = format!("{url}: {reason}");
                let mend = "start a bus there (interlink-bus), or name another one with --url";
                report.add("relay", Verdict::Broken, found, Some(mend));
            }
        }
    }
}

/// The same in the way of the server, which can do TLS and does not look at the time.
fn ask_over_tls(relay: RelayUrl, authorities: &Authorities) -> Result<Option<u64>, String> {
    let clients = RelayClient::all(&[relay], authorities).map_err(|e| e.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    for client in clients {
        let answer =
            runtime.block_on(async { tokio::time::timeout(ANSWER, client.roster()).await });
        answer
            .map_err(|_| "no answer in time".to_owned())?
            .map_err(|e| e.to_string())?;
    }
    Ok(None)
}

/// Asks a relay for its roster; the time of its answer, if it says.
fn ask(url: &str) -> Result<Option<u64>, String> {
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(ANSWER))
        .build();
    let agent: ureq::Agent = config.into();
    let mut answer = agent
        .get(format!("{url}/roster"))
        .call()
        .map_err(|e| e.to_string())?;
    if answer.status().as_u16() != 200 {
        return Err(format!("it answers with status {}", answer.status()));
    }
    let date = answer.headers().get("date");
    let date = date
        .and_then(|d| d.to_str().ok())
        .and_then(clock::http_date_ms);
    let limit = u64::try_from(MAX_ROSTER_BYTES).unwrap_or(u64::MAX) * 2;
    let body = answer
        .body_mut()
        .with_config()
        .limit(limit)
        .read_to_string();
    let value: serde_json::Value = serde_json::from_str(&body.map_err(|e| e.to_string())?)
        .map_err(|_| "it answers, but not like a relay".to_owned())?;
    match value.get("roster") {
        Some(serde_json::Value::Array(_)) => Ok(date),
        _ => Err("it answers, but not like a relay".to_owned()),
    }
}

fn judge_clock(report: &mut Report, url: &str, date: Option<u64>) {
    let Some(theirs) = date else {
        let found = format!("{url} answers; it tells no time");
        return report.add("relay", Verdict::Ok, found, None);
    };
    let ours = SystemClock.now().0;
    let skew = ours.abs_diff(theirs);
    // The date has whole seconds.
    let seconds = skew / 1000;
    let way = if ours > theirs { "ahead of" } else { "behind" };
    let (verdict, mend) = if skew > MAX_FUTURE_MS {
        let mend = "set the clocks (NTP): messages from the future are refused";
        (Verdict::Broken, Some(mend))
    } else if skew > SKEW_WORTH_SAYING_MS {
        (Verdict::Hint, Some("set the clocks (NTP)"))
    } else {
        let found = format!("{url} answers, and its clock agrees");
        return report.add("relay", Verdict::Ok, found, None);
    };
    let found = format!("{url} answers; this clock is {seconds} s {way} its clock");
    report.add("relay", verdict, found, mend);
}
