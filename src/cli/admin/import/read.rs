//! The public program's folder: files to things. Nothing in it is changed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::report::{Report, Unsigned};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{ImportedControl, ImportedMail, ImportedPairing};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{MAX_IMPORTED_FILE_BYTES, MAX_IMPORTED_FILES, MAX_PEERS_FILE_BYTES};
use crate::types::route::Route;
use crate::wire::peers::Peers;
use crate::wire::public::{self, InboxLine, Item, PairEntry, PairJob, SessionOwners, StoredMail};

/// Folders of the public program and of this one that say nothing that is not known otherwise.
const NEEDLESS: [(&str, &str); 2] = [
    (
        "task",
        "progress markers: what they say stands in the messages",
    ),
    ("titles", "retired"),
];

/// Everything that an identity kept.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Where the list of peers stands, and whom it names.
    pub(super) peers: Option<(PathBuf, Vec<(String, PublicKey)>)>,
    /// Whose sessions it knew.
    pub(super) sessions: Vec<SessionOwners>,
    /// Messages by session, in their order.
    pub(super) mail: Vec<(SessionId, Vec<ImportedMail>)>,
    /// Strangers' requests by session.
    pub(super) knocks: Vec<(SessionId, Vec<ImportedPairing>)>,
    /// Our requests by session.
    pub(super) requests: Vec<(SessionId, Vec<ImportedPairing>)>,
    /// What was not sent.
    pub(super) control: Vec<ImportedControl>,
}

/// A folder under inspection.
struct Folder<'a> {
    root: &'a Path,
    own: PublicKey,
    report: &'a mut Report,
}

/// Reads the folder of an identity.
pub(super) fn folder(root: &Path, own: PublicKey, relays: &[String], report: &mut Report) -> Found {
    let mut folder = Folder { root, own, report };
    let mut found = Found::default();
    folder.sessions(&mut found);
    folder.mail(&mut found);
    folder.pairing(relays, &mut found);
    folder.inbox(&found);
    folder.failed();
    folder.others();
    found
}

/// Reads a list of peers. A list is whole or it is none.
pub(super) fn peers(path: &Path, report: &mut Report) -> Option<Vec<(String, PublicKey)>> {
    let name = path.display().to_string();
    let read = slurp(path, MAX_PEERS_FILE_BYTES).and_then(text);
    let parsed = read.and_then(|text| Peers::parse(&text).map_err(|e| e.to_string()));
    match parsed {
        Ok(peers) => Some(
            peers
                .iter()
                .map(|(name, key)| (name.to_owned(), key))
                .collect(),
        ),
        Err(reason) => {
            report.refuse(&name, reason);
            None
        }
    }
}

/// The bytes of a plain file; links are followed, anything else could keep us waiting.
pub(super) fn slurp(path: &Path, max: usize) -> Result<Vec<u8>, String> {
    let metadata = fs::metadata(path).map_err(|e| e.to_string())?;
    if !metadata.is_file() {
        return Err("not a plain file".to_owned());
    }
    let too_long = |len: u64| format!("{len} bytes, at most {max} are read");
    if metadata.len() > max as u64 {
        return Err(too_long(metadata.len()));
    }
    let mut bytes = vec![];
    File::open(path)
        .and_then(|file| file.take(max as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.len() > max {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

impl Folder<'_> {
    /// A path as it is told: below the folder.
    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.root).unwrap_or(path);
        below.display().to_string()
    }

    /// The entries of a folder in order; `None` for one that is not there.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let listed = fs::read_dir(folder).and_then(|entries| {
            let mut paths = vec![];
            for entry in entries.take(MAX_IMPORTED_FILES * 4 + 1) {
                paths.push(entry?.path());
            }
            Ok(paths)
        });
        match listed {
            Ok(mut paths) => {
                paths.sort();
                if paths.len() > MAX_IMPORTED_FILES * 4 {
                    paths.clear();
                    let name = self.name(folder);
                    self.report.refuse(&name, "too many files");
                }
                paths
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => vec![],
            Err(e) => {
                let name = self.name(folder);
                self.report.refuse(&name, e);
                vec![]
            }
        }
    }

    /// The sessions' files in a folder: those that end so.
    fn files(&mut self, folder: &Path, extension: &str) -> Vec<(SessionId, PathBuf)> {
        let mut files = vec![];
        for path in self.entries(folder) {
            if path.extension().is_none_or(|e| e != extension) {
                continue;
            }
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            match stem.and_then(|stem| SessionId::parse(stem).ok()) {
                Some(session) if files.len() < MAX_IMPORTED_FILES => files.push((session, path)),
                Some(_) => {
                    let name = self.name(&path);
                    self.report.refuse(&name, "too many files");
                }
                None => {
                    let name = self.name(&path);
                    self.report.refuse(&name, "its name is not a session id");
                }
            }
        }
        files
    }

    fn of_identity(&self, kind: &str) -> PathBuf {
        self.root.join(kind).join(self.own.to_string())
    }

    /// Reads a file as text and takes it apart; what is wrong with it is told.
    fn parse<T, E: ToString>(
        &mut self,
        path: &Path,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let parsed = slurp(path, MAX_IMPORTED_FILE_BYTES)
            .and_then(text)
            .and_then(|text| parse(&text).map_err(|e| e.to_string()));
        match parsed {
            Ok(value) => Some(value),
            Err(reason) => {
                let name = self.name(path);
                self.report.refuse(&name, reason);
                None
            }
        }
    }

    /// Those that are whole; the others are told.
    fn whole<T>(&mut self, path: &Path, items: Vec<Item<T>>) -> Vec<T> {
        let name = self.name(path);
        let mut whole = vec![];
        for (at, item) in items.into_iter().enumerate() {
            match item {
                Ok(thing) => whole.push(thing),
                Err(e) => self.report.refuse_item(&name, at, e),
            }
        }
        whole
    }

    fn sessions(&mut self, found: &mut Found) {
        let path = self
            .root
            .join("sessions")
            .join(format!("{}.json", self.own));
        if path.exists()
            && let Some(items) = self.parse(&path, public::sessions)
        {
            found.sessions = self.whole(&path, items);
        }
    }

    fn mail(&mut self, found: &mut Found) {
        let folder = self.of_identity("mailbox");
        for (session, path) in self.files(&folder, "json") {
            let own = self.own;
            let Some(items) = self.parse(&path, |text| public::mailbox(text, &own)) else {
                continue;
            };
            let mails: Vec<Item<ImportedMail>> =
                items.into_iter().map(|item| item.and_then(mail)).collect();
            let mails = self.whole(&path, mails);
            if is_served(&path) {
                self.report.running.push(session.to_string());
            }
            found.mail.push((session, mails));
        }
    }

    fn pairing(&mut self, relays: &[String], found: &mut Found) {
        let folder = self.of_identity("pairing");
        for (session, path) in self.files(&folder, "json") {
            let own = self.own;
            let Some(state) = self.parse(&path, |text| public::pairing(text, &own)) else {
                continue;
            };
            let knocks = self.whole(&path, state.inbound);
            let requests = self.whole(&path, state.outbound);
            let jobs = state
                .queued
                .into_iter()
                .map(|job| job.and_then(|job| control(&session, job, relays)))
                .collect();
            found.control.extend(self.whole(&path, jobs));
            let listed = |entries: Vec<PairEntry>| entries.into_iter().map(pairing).collect();
            found.knocks.push((session.clone(), listed(knocks)));
            found.requests.push((session, listed(requests)));
        }
    }

    /// Lines for the host's listener. Notices are made anew for what is unread; what else stands
    /// there is unsigned, and is shown.
    fn inbox(&mut self, found: &Found) {
        let folder = self.root.join("inbox");
        for (_, path) in self.files(&folder, "jsonl") {
            let name = self.name(&path);
            let mut cursor = path.clone().into_os_string();
            cursor.push(".cursor");
            // As the public program names it, and as its documentation does.
            let cursor = [PathBuf::from(cursor), path.with_extension("cursor")]
                .iter()
                .find_map(|path| slurp(path, 64).and_then(text).ok());
            match slurp(&path, MAX_IMPORTED_FILE_BYTES) {
                Ok(bytes) => {
                    let lines = public::inbox(&bytes, cursor.as_deref());
                    for line in self.whole(&path, lines) {
                        if !line.is_notice() && !is_pairing_notice(&line, found) {
                            self.report.unsigned(Unsigned {
                                file: name.clone(),
                                sender: line.sender,
                                msg_id: line.msg_id,
                                text: line.content,
                            });
                        }
                    }
                }
                Err(reason) => self.report.refuse(&name, reason),
            }
        }
    }

    /// What a Codex host did not take.
    fn failed(&mut self) {
        let folder = self.of_identity("failed");
        for (_, path) in self.files(&folder, "json") {
            let Some(items) = self.parse(&path, public::failed) else {
                continue;
            };
            let file = self.name(&path);
            for delivery in self.whole(&path, items) {
                if !delivery.notice {
                    self.report.unsigned(Unsigned {
                        file: file.clone(),
                        sender: delivery.sender,
                        msg_id: delivery.msg_id,
                        text: delivery.text,
                    });
                }
            }
        }
    }

    /// What else there is.
    fn others(&mut self) {
        for kind in ["mailbox", "pairing", "failed"] {
            for path in self.entries(&self.root.join(kind)) {
                let of = path.file_name().and_then(|name| name.to_str());
                let key = of.and_then(|name| name.parse::<PublicKey>().ok());
                if key.is_some_and(|key| key != self.own) {
                    let name = self.name(&path);
                    self.report
                        .aside(&name, "another identity's: import it with --key");
                }
            }
        }
        for (name, reason) in NEEDLESS {
            if self.root.join(name).exists() {
                self.report.aside(name, reason);
            }
        }
    }
}

/// Whether a process of the public program serves a mailbox: it keeps a lock beside it.
fn is_served(mailbox: &Path) -> bool {
    File::open(mailbox.with_extension("notifier-lock"))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether a line only tells of a request that waits: it is shown with the requests.
fn is_pairing_notice(line: &InboxLine, found: &Found) -> bool {
    let id = line.msg_id.as_str();
    let mut requests = found.knocks.iter().chain(&found.requests);
    let mut answers = found.control.iter();
    requests.any(|(_, some)| some.iter().any(|one| one.request_id.as_str() == id))
        || answers.any(|mail| {
            mail.in_reply_to
                .as_ref()
                .is_some_and(|to| to.as_str() == id)
        })
}

fn mail(stored: StoredMail) -> Item<ImportedMail> {
    let message = stored.message;
    let body = serde_json::to_vec(&message)?;
    Ok(ImportedMail {
        from: message.from,
        ts: message.ts,
        status: message.status.map(Into::into),
        reply_to: message
            .reply_to
            .as_deref()
            .and_then(|text| text.parse::<Route>().ok()),
        msg_id: message.msg_id,
        task_id: message.task_id,
        in_reply_to: message.in_reply_to,
        label: stored.label,
        read: stored.read,
        sha256: sha256(&body),
        body: body.into(),
    })
}

fn pairing(entry: PairEntry) -> ImportedPairing {
    ImportedPairing {
        key: entry.key,
        name: entry.name,
        request_id: entry.request_id,
        their_session: entry.session,
    }
}

fn control(session: &SessionId, job: PairJob, relays: &[String]) -> Item<ImportedControl> {
    let message = job.message;
    let body = serde_json::to_vec(&message)?;
    Ok(ImportedControl {
        session: session.clone(),
        to: message.to,
        to_session: job.to_session,
        kind: message.kind.into(),
        msg_id: message.msg_id,
        in_reply_to: message.in_reply_to,
        ts: message.ts,
        sha256: sha256(&body),
        body: body.into(),
        relays: relays.to_vec(),
    })
}
