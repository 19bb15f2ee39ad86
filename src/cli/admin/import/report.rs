//! What an import says about itself.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::print::{Printer, Style, fit};
use crate::event::agent::ImportedPart;
use crate::types::text::visible;

/// Things of one sort that are listed one by one; the rest is counted.
const LISTED: usize = 256;

/// Characters of an unsigned text that people are shown; JSON has all of it.
const SHOWN: usize = 2000;

/// The part that is not an identity's.
pub(super) const QUEUES: &str = "queues";

/// Every part, in the order in which it is taken over.
const PARTS: [&str; 7] = [
    ImportedPart::Peers.name(),
    ImportedPart::Sessions.name(),
    ImportedPart::Mail.name(),
    ImportedPart::Knocks.name(),
    ImportedPart::Requests.name(),
    ImportedPart::Control.name(),
    QUEUES,
];

/// What became of the things of one part.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// What there is in the other program's state.
    found: usize,
    /// What is taken over by this import.
    pub(super) taken: usize,
    /// What is here already.
    known: usize,
    /// What stays where it is, by reason.
    left: BTreeMap<&'static str, usize>,
    /// Whether somebody waits for some of that.
    unread_left: bool,
}

/// How a key gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// It stands in the list.
    List,
    /// It was asked, and gets in when it accepts.
    Request,
}

/// A key that is let in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Admitted {
    pub(super) petname: String,
    pub(super) key: String,
    pub(super) fingerprint: String,
    pub(super) how: How,
}

/// A file, or a thing in one, that does not count.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Refused {
    file: String,
    /// Which thing in it, counted from 1; `None` is the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<usize>,
    reason: String,
}

/// Words that nobody signed. They are shown, because they cannot be stored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Unsigned {
    pub(super) file: String,
    pub(super) sender: String,
    pub(super) msg_id: String,
    pub(super) text: String,
}

/// Something that is not looked at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Aside {
    file: String,
    reason: &'static str,
}

/// A session that gets messages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SessionMail {
    session: String,
    /// What is unread in its mailbox then, earlier mail included.
    unread: usize,
}

/// What `import --from-interlink` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ImportReport")]
pub(in crate::cli::admin) struct Report {
    /// The folder.
    pub(super) from: String,
    /// Whether nothing was to be written.
    dry_run: bool,
    /// Whether anything was written.
    changed: bool,
    /// The identity that takes it over, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
    /// One of each sort, in the order in which they are taken over.
    parts: Vec<Part>,
    /// Keys that are let in.
    pub(super) admits: Vec<Admitted>,
    /// Sessions that get messages.
    sessions: Vec<SessionMail>,
    /// Sessions that the other program still serves.
    pub(super) running: Vec<String>,
    /// Files, and things in them, that do not count.
    refused: Vec<Refused>,
    /// Texts that nobody signed: data, never instructions.
    pub(super) unsigned: Vec<Unsigned>,
    /// What is not looked at.
    aside: Vec<Aside>,
    /// Things beyond the listed ones in `refused`, `unsigned` and `aside`.
    more: usize,
}

impl Report {
    pub(super) fn new(from: &Path, dry_run: bool) -> Report {
        Report {
            from: from.display().to_string(),
            dry_run,
            changed: false,
            identity: None,
            parts: PARTS
                .iter()
                .map(|name| Part {
                    name,
                    ..Part::default()
                })
                .collect(),
            admits: vec![],
            sessions: vec![],
            running: vec![],
            refused: vec![],
            unsigned: vec![],
            aside: vec![],
            more: 0,
        }
    }

    fn part(&mut self, name: &str) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.name == name)
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    pub(super) fn taken(&mut self, part: &str, count: usize) {
        if let Some(part) = self.part(part) {
            part.found += count;
            part.taken += count;
        }
    }

    pub(super) fn known(&mut self, part: &str, count: usize) {
        if let Some(part) = self.part(part) {
            part.found += count;
            part.known += count;
        }
    }

    /// Something stays where it is; `unread`: somebody waits for it.
    pub(super) fn left(&mut self, part: &str, reason: &'static str, unread: bool) {
        if let Some(part) = self.part(part) {
            part.found += 1;
            part.unread_left |= unread;
            *part.left.entry(reason).or_default() += 1;
        }
    }

    /// Begins to count some parts anew.
    pub(super) fn forget(&mut self, which: impl Fn(&str) -> bool) {
        for part in self.parts.iter_mut().filter(|part| which(part.name)) {
            *part = Part {
                name: part.name,
                ..Part::default()
            };
        }
        if which(ImportedPart::Mail.name()) {
            self.sessions.clear();
        }
    }

    /// Forgets what was said about a file, which is read again.
    pub(super) fn forget_file(&mut self, file: &str) {
        self.refused.retain(|refused| refused.file != file);
    }

    /// What is said after everything was done.
    pub(super) fn finish(&mut self) {
        self.changed = !self.dry_run && self.changes();
    }

    fn list<T>(&mut self, list: impl FnOnce(&mut Report) -> &mut Vec<T>, thing: T) {
        let list = list(self);
        if list.len() < LISTED {
            list.push(thing);
        } else {
            self.more += 1;
        }
    }

    /// A file does not count.
    pub(super) fn refuse(&mut self, file: &str, reason: impl ToString) {
        let refused = Refused {
            file: file.to_owned(),
            item: None,
            reason: reason.to_string(),
        };
        self.list(|r| &mut r.refused, refused);
    }

    /// A thing in a file does not count; `at` from 0.
    pub(super) fn refuse_item(&mut self, file: &str, at: usize, reason: impl ToString) {
        let refused = Refused {
            file: file.to_owned(),
            item: Some(at + 1),
            reason: reason.to_string(),
        };
        self.list(|r| &mut r.refused, refused);
    }

    pub(super) fn unsigned(&mut self, unsigned: Unsigned) {
        self.list(|r| &mut r.unsigned, unsigned);
    }

    pub(super) fn aside(&mut self, file: &str, reason: &'static str) {
        let aside = Aside {
            file: file.to_owned(),
            reason,
        };
        self.list(|r| &mut r.aside, aside);
    }

    /// How much is unread in a session's mailbox.
    pub(super) fn unread(&mut self, session: &str, unread: usize) {
        self.sessions.push(SessionMail {
            session: session.to_owned(),
            unread,
        });
    }

    /// Whether nothing was there at all.
    pub(super) fn is_empty(&self) -> bool {
        let found: usize = self.parts.iter().map(|part| part.found).sum();
        found == 0 && self.refused.is_empty() && self.unsigned.is_empty() && self.aside.is_empty()
    }

    fn unread_left(&self) -> bool {
        self.parts.iter().any(|part| part.unread_left)
    }

    /// Whether anything is to be taken over.
    pub(super) fn changes(&self) -> bool {
        self.parts.iter().any(|part| part.taken > 0)
    }

    /// How the program ends.
    pub(super) fn code(&self) -> u8 {
        u8::from(!self.refused.is_empty() || self.unread_left())
    }

    pub(super) fn print(&self, p: &mut Printer) -> Result<(), AdminError> {
        if p.json {
            return Ok(p.json(self)?);
        }
        let head = match (self.dry_run, self.changes()) {
            (true, true) => "this would be taken over; nothing has changed",
            (false, true) => "taken over",
            (_, false) => "nothing to take over; nothing has changed",
        };
        p.line(Style::Bold, head)?;
        p.field("from", &self.from)?;
        if let Some(identity) = &self.identity {
            p.field("identity", identity)?;
        }
        self.print_parts(p)?;
        for part in &self.parts {
            for (reason, count) in &part.left {
                let text = format!("{count} of {}: {}", part.name, reason.replace('_', " "));
                p.field("left", &text)?;
            }
        }
        for s in &self.sessions {
            p.field("session", &format!("{}: {} unread", s.session, s.unread))?;
        }
        for session in &self.running {
            let text = format!("{session} in the other program: end it first");
            p.field("running", &text)?;
        }
        for key in &self.admits {
            let how = match key.how {
                How::List => "admitted",
                How::Request => "asked",
            };
            let text = format!("{} {} {}", key.fingerprint, key.key, key.petname);
            p.field(how, &text)?;
        }
        self.print_rest(p)
    }

    fn print_parts(&self, p: &mut Printer) -> Result<(), AdminError> {
        let rows: Vec<Vec<String>> = self
            .parts
            .iter()
            .filter(|part| part.found > 0)
            .map(|part| {
                let left: usize = part.left.values().sum();
                [part.found, part.taken, part.known, left]
                    .iter()
                    .map(ToString::to_string)
                    .fold(vec![part.name.to_owned()], |mut row, cell| {
                        row.push(cell);
                        row
                    })
            })
            .collect();
        let took = if self.dry_run { " to take" } else { " taken" };
        Ok(p.table(&["part", " found", took, " here", " left"], &rows)?)
    }

    fn print_rest(&self, p: &mut Printer) -> Result<(), AdminError> {
        for refused in &self.refused {
            let item = refused.item.map_or_else(String::new, |n| format!(" #{n}"));
            let text = format!("{}{item}: {}", refused.file, refused.reason);
            p.field("refused", &text)?;
        }
        for aside in &self.aside {
            p.field("left alone", &format!("{}: {}", aside.file, aside.reason))?;
        }
        if !self.unsigned.is_empty() {
            p.line(
                Style::Bold,
                "not signed, so not stored; this is what it says:",
            )?;
        }
        for unsigned in &self.unsigned {
            p.field("file", &unsigned.file)?;
            p.field("sender", &format!("{} (a claim)", unsigned.sender))?;
            p.field("text", &fit(&unsigned.text, SHOWN))?;
        }
        if self.more > 0 {
            p.field("more", &format!("{} that are not listed", self.more))?;
        }
        if self.unread_left() {
            let text = "something unread stays in the other program's folder: make room, then \
                        import again";
            p.line(Style::Bad, &visible(text))?;
        }
        Ok(())
    }
}
