//! `doctor`: what stands in the way of the stores, and what to do next.
//!
//! It looks and changes nothing. Exit codes: 0 nothing is broken, 1 something is.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::exit::Exit;
use super::super::paths;
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style, bytes, now, span};
use super::reader::{Source, StoreStatus};
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::event::kind::StoreKind;
use crate::store::FORMAT;
use crate::types::time::UnixMillis;
use crate::wire::admin::AdminFile;

/// Less free space than this stops writing soon, in bytes.
const LITTLE: u64 = 64 << 20;

/// Less than this is worth saying.
const SCARCE: u64 = 512 << 20;

/// How far ahead of the clock a record may be before the clock is doubted.
const AHEAD_MS: u64 = 60_000;

/// Bytes of records that are kept by default.
const RETAIN_BYTES: u64 = 256 << 20;

/// A file that is so many times larger than its log and at least [`LITTLE`] has room to give back.
const ROOMY: u64 = 4;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Hint,
    /// In the way of messages.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Finding {
    /// What: `folder`, `disk`, `store`, `format`, `log`, `clock`, `endpoint`, `health`, `mail`.
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What was found about one store, or about the folder of all.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Patient {
    /// Path of the store or folder.
    place: String,
    findings: Vec<Finding>,
}

/// Everything that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Report {
    /// Whether nothing is broken.
    ok: bool,
    patients: Vec<Patient>,
}

impl Patient {
    fn new(place: &Path) -> Patient {
        Patient {
            place: place.display().to_string(),
            findings: vec![],
        }
    }

    fn ok(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, Verdict::Ok, found, None);
    }

    fn hint(&mut self, name: &'static str, found: impl Into<String>, next: impl Into<String>) {
        self.add(name, Verdict::Hint, found, Some(next.into()));
    }

    fn broken(&mut self, name: &'static str, found: impl Into<String>, next: impl Into<String>) {
        self.add(name, Verdict::Broken, found, Some(next.into()));
    }

    fn add(
        &mut self,
        name: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        next: Option<String>,
    ) {
        self.findings.push(Finding {
            name,
            verdict,
            found: found.into(),
            next,
        });
    }
}

pub(super) fn run(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let mut patients: Vec<Patient> = vec![];
    for target in targets {
        let path = match target {
            Target::File(path) | Target::Memory(path) => path,
        };
        if let Some(folder) = path.parent() {
            // The name alone stands for a file of this folder.
            let here = folder.as_os_str().is_empty();
            let folder = if here { Path::new(".") } else { folder };
            let place = folder.display().to_string();
            if !patients.iter().any(|patient| patient.place == place) {
                patients.push(look_at_folder(folder));
            }
        }
        patients.push(look_at_store(target, path));
    }
    let mut findings = patients.iter().flat_map(|patient| &patient.findings);
    let ok = findings.all(|finding| finding.verdict != Verdict::Broken);
    if !ok {
        p.code = Exit::Failure.code();
    }
    let report = Report { ok, patients };
    if p.json {
        return Ok(p.json(&report)?);
    }
    show(&report, p)
}

fn show(report: &Report, p: &mut Printer) -> Result<(), AdminError> {
    for patient in &report.patients {
        p.whole_line(Style::Bold, &patient.place)?;
        for finding in &patient.findings {
            let (mark, style) = match finding.verdict {
                Verdict::Ok => ("ok", Style::Good),
                Verdict::Hint => ("hint", Style::Plain),
                Verdict::Broken => ("BROKEN", Style::Bad),
            };
            p.line(style, &format!("  {mark:<7} {}", finding.name))?;
            p.field("", &finding.found)?;
            if let Some(next) = &finding.next {
                p.field("  next", next)?;
            }
        }
    }
    let verdict = if report.ok {
        "nothing is broken"
    } else {
        "something is broken"
    };
    Ok(p.line(Style::Plain, verdict)?)
}

fn look_at_folder(folder: &Path) -> Patient {
    let mut patient = Patient::new(folder);
    look_at_permissions(&mut patient, folder);
    look_at_disk(&mut patient, folder);
    patient
}

#[cfg(unix)]
fn look_at_permissions(patient: &mut Patient, folder: &Path) {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(e) => {
            let next = "make it readable, or name another place with --store PATH";
            return patient.broken("folder", format!("cannot be looked at: {e}"), next);
        }
    };
    let mode = metadata.permissions().mode() & 0o777;
    let chmod = format!("chmod 700 {}", folder.display());
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if mode & 0o077 != 0 {
        let found = format!("mode {mode:04o}: other users may look at stores or replace them");
        patient.hint("folder", found, chmod);
    } else if !own {
        let found = "it belongs to another user";
        patient.hint(
            "folder",
            found,
            "run this as the user whose stores these are",
        );
    } else {
        patient.ok("folder", format!("mode {mode:04o}"));
    }
    if own && mode & 0o700 != 0o700 {
        let found = format!("mode {mode:04o}: its owner cannot write there");
        patient.broken("folder", found, format!("chmod 700 {}", folder.display()));
    }
}

#[cfg(not(unix))]
fn look_at_permissions(_patient: &mut Patient, _folder: &Path) {}

#[cfg(unix)]
fn look_at_disk(patient: &mut Patient, folder: &Path) {
    let Ok(disk) = rustix::fs::statvfs(folder) else {
        return;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    judge_disk(
        patient,
        free,
        disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
    );
}

#[cfg(not(unix))]
fn look_at_disk(_patient: &mut Patient, _folder: &Path) {}

fn judge_disk(patient: &mut Patient, free: u64, read_only: bool) {
    let found = format!("{} free", bytes(free));
    if read_only {
        let next = "mount it for writing";
        patient.broken("disk", "the file system takes no writes", next);
    } else if free < LITTLE {
        let next = "make room; then restart a bus whose health says read-only";
        patient.broken("disk", found, next);
    } else if free < SCARCE {
        patient.hint("disk", found, "make room before the stores need it");
    } else {
        patient.ok("disk", found);
    }
}

fn look_at_store(target: &Target, path: &Path) -> Patient {
    let mut patient = Patient::new(path);
    let admin = match target {
        Target::File(store) => paths::admin_file(store),
        Target::Memory(admin) => admin.clone(),
    };
    let access = match target.access() {
        Ok(access) => access,
        Err(e) => {
            let next = e.next().unwrap_or_else(|| {
                "keep the file; `interlink-admin repair` salvages what is whole".to_owned()
            });
            let name = if matches!(e, AdminError::Endpoint(_)) {
                "endpoint"
            } else {
                "store"
            };
            patient.broken(name, e.to_string(), next);
            return patient;
        }
    };
    let status = match access.reader().status() {
        Ok(status) => status,
        Err(e) => {
            let next = e.next().unwrap_or_else(|| {
                "`interlink-admin verify` names the first difference".to_owned()
            });
            patient.broken("store", e.to_string(), next);
            return patient;
        }
    };
    let source = status.origin.source;
    match source {
        Source::RepairedCopy => patient.hint(
            "store",
            "it was left open by its last process; nothing is lost",
            "nothing: whoever opens it next repairs it",
        ),
        Source::File => patient.ok("store", "it is whole"),
        Source::Endpoint => patient.ok("endpoint", "the bus that runs on it answers"),
    }
    if source != Source::Endpoint && admin.exists() {
        judge_leftover(&mut patient, &admin);
    }
    if let super::locate::Access::File(file) = &access {
        look_at_versions(&mut patient, file);
    }
    judge(&mut patient, &status, now());
    patient
}

/// A file that should lead to a running bus, beside a store that no bus has open.
fn judge_leftover(patient: &mut Patient, admin: &Path) {
    let file = fs::read(admin)
        .ok()
        .and_then(|text| serde_json::from_slice::<AdminFile>(&text).ok());
    let pid = file.map_or_else(String::new, |file| format!(" (pid {})", file.pid));
    patient.hint(
        "endpoint",
        format!("{} was left by a bus{pid} that is gone", admin.display()),
        "nothing: the next bus writes it anew; or delete it",
    );
}

fn look_at_versions(patient: &mut Patient, file: &super::file::FileReader) {
    let read = file.read(|snapshot| {
        let unbuilt = match file.kind() {
            StoreKind::Bus => snapshot.unbuilt::<Bus>()?,
            StoreKind::Agent => snapshot.unbuilt::<Agent>()?,
        };
        Ok((snapshot.format()?, unbuilt))
    });
    match read {
        Err(e) => patient.broken("format", e.to_string(), "`interlink-admin verify`"),
        Ok((format, unbuilt)) if format < FORMAT || !unbuilt.is_empty() => {
            let rows = match unbuilt.is_empty() {
                true => String::new(),
                false => format!("; rows of another version: {}", unbuilt.join(", ")),
            };
            patient.hint(
                "format",
                format!("{format}, this program writes {FORMAT}{rows}"),
                "nothing: the next program that opens it for writing brings it up to date, after a copy",
            );
        }
        Ok((format, _)) => patient.ok("format", format!("{format}, the newest")),
    }
}

/// What the numbers say.
fn judge(patient: &mut Patient, status: &StoreStatus, now: UnixMillis) {
    let ahead = status.head_at.map_or(0, |at| UnixMillis(at).since(now));
    if ahead > AHEAD_MS {
        patient.broken(
            "clock",
            format!(
                "the newest record is {} ahead of this machine's clock",
                span(ahead)
            ),
            "check the clock of this machine (`date`, `timedatectl`)",
        );
    } else {
        patient.ok("clock", "no record is ahead of it");
    }
    let kept = status
        .running
        .as_ref()
        .map_or(RETAIN_BYTES, |r| r.retain_bytes);
    if status.log_bytes > kept.saturating_add(kept / 4) {
        patient.hint(
            "log",
            format!(
                "{} of records, {} are kept",
                bytes(status.log_bytes),
                bytes(kept)
            ),
            "`interlink-admin compact`; a program that runs on it does so by and by",
        );
    } else {
        patient.ok("log", format!("{} of records", bytes(status.log_bytes)));
    }
    let held = status.bus.as_ref().map_or(0, |bus| bus.bytes);
    let needed = status.log_bytes.saturating_add(held).saturating_mul(ROOMY);
    if let Some(size) = status.file_bytes.filter(|size| *size > needed.max(LITTLE)) {
        patient.hint(
            "file",
            format!(
                "{} for {} of records and mail",
                bytes(size),
                bytes(needed / ROOMY)
            ),
            "`interlink-admin compact --shrink` while nothing runs on it, if the space is needed",
        );
    }
    if let Some(running) = &status.running {
        match &running.read_only_reason {
            Some(reason) => patient.broken(
                "health",
                format!("the bus takes no writes: {reason}"),
                "mend the cause, usually the disk, then restart the bus",
            ),
            None => patient.ok("health", running.health.clone()),
        }
        if running.refused > 0 {
            patient.hint(
                "mail",
                format!("{} messages were refused for want of room", running.refused),
                "`interlink-admin queue` shows who does not fetch",
            );
        }
    }
    if let Some(agent) = &status.agent {
        let dead = agent.sessions.iter();
        let dead = dead
            .filter(|s| s.unread > 0 && s.alive != Some(true))
            .count();
        if dead > 0 {
            patient.hint(
                "mail",
                format!("{dead} sessions have unread mail and no process"),
                "`interlink-admin inbox`; start a session with --session ID to read it",
            );
        }
        if let Some(last) = &agent.last_error {
            patient.hint(
                "mail",
                format!("{} waits: {}: {}", last.msg_id, last.relay, last.reason),
                "`interlink-admin outbox` shows every relay; is that one running?",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(free: u64, read_only: bool) -> Verdict {
        let mut patient = Patient::new(Path::new("x"));
        judge_disk(&mut patient, free, read_only);
        patient.findings.first().unwrap().verdict
    }

    #[test]
    fn a_disk_is_full_before_it_is_full() {
        assert_eq!(verdict(LITTLE - 1, false), Verdict::Broken);
        assert_eq!(verdict(SCARCE - 1, false), Verdict::Hint);
        assert_eq!(verdict(SCARCE, false), Verdict::Ok);
        assert_eq!(verdict(SCARCE, true), Verdict::Broken);
    }
}
