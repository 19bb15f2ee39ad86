//! What an identity kept, as commands to its store.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::super::error::AdminError;
use super::super::file::open_in_time;
use super::super::operator::{Operator, store_path};
use super::super::print::now;
use super::super::reader::owner;
use super::read::{self, Found};
use super::report::{Admitted, How, QUEUES, Report};
use super::{Args, ImportError};
use crate::codec::frame;
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    Agent, AgentCommand, AgentReply, Fate, ImportCommand, ImportedMail, ImportedPairing, Left,
    pairing_mark,
};
use crate::domain::projection::marks::marks as marks_in;
use crate::domain::query::agent as query;
use crate::domain::rehearsal::Rehearsal;
use crate::domain::tables::{TableError, TableId, TableReader};
use crate::event::Recorded;
use crate::event::agent::{AgentEvent, ImportedPart};
use crate::event::kind::{EventKind, StoreKind};
use crate::store::{ReadError, Reader, Snapshot};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{
    MAX_IMPORTED_BYTES_PER_COMMAND, MAX_IMPORTED_PER_COMMAND, MAX_PEERS_FILE_BYTES,
    MAX_SIGHTINGS_PER_RECORD,
};
use crate::types::seq::Seq;
use crate::wire::peers::Peers;

/// What is to be done to an identity's store.
pub(super) struct Plan {
    commands: Vec<ImportCommand>,
    /// Things that were taken over before and have ended since.
    done_before: Vec<(ImportedPart, usize)>,
}

/// Reads the folder and tries what would come of it on a copy of the identity's rows. `None`: there is
/// nothing.
pub(super) fn plan(
    args: &Args,
    place: Option<&Path>,
    report: &mut Report,
) -> Result<Option<Plan>, AdminError> {
    let me = args.who.identity()?.public();
    report.identity = Some(me.to_string());
    let mut found = read::folder(args.folder(), me, &args.relays.list()?, report);
    let store = open(&store_path(place, &me)?)?;
    let adopted = match &store {
        Some(open) => query::peers_file(&open.snapshot).map_err(|e| open.failed(e.into()))?,
        None => None,
    };
    let (list, sure) = args.who.list(adopted.map(|row| PathBuf::from(row.path)))?;
    if !sure {
        return Err(AdminError::WhichPeers { usual: list });
    }
    found.peers = peers(args, &list, report);
    let mut rehearsal = match &store {
        Some(open) => open.rehearsal()?,
        None => Rehearsal::empty().map_err(ImportError::from)?,
    };
    follow_list(&mut rehearsal, &list)?;
    let marks = match &store {
        Some(open) => marks(&open.snapshot).map_err(|e| open.failed(e))?,
        None => BTreeSet::new(),
    };
    drop(store);
    let plan = Plan::of(found, me, &marks);
    try_out(&plan, &mut rehearsal, report)?;
    let all: usize = report.parts().map(|part| part.taken).sum();
    Ok((all > 0).then_some(plan))
}

/// Does what was tried.
pub(super) fn carry_out(
    args: &Args,
    place: Option<&Path>,
    plan: &Plan,
    report: &mut Report,
) -> Result<(), AdminError> {
    let operator = Operator::open(&args.who, place)?;
    operator.prepare()?;
    report.forget(|part| part != QUEUES);
    plan.tell_done_before(report);
    for command in &plan.commands {
        let wish = AgentCommand::Import(command.clone());
        let reply = match command.part() {
            ImportedPart::Peers => operator.change(wish)?,
            _ => operator.submit(wish)?,
        };
        tell(command, reply, report)?;
    }
    operator.read(|snapshot| Ok(plan.tell_unread(snapshot, report)?))
}

/// The identity's store, to be looked at only.
struct Looked {
    path: PathBuf,
    snapshot: Snapshot,
    _reader: Reader,
}

impl Looked {
    fn failed(&self, source: ReadError) -> ImportError {
        ImportError::Store {
            place: self.path.clone(),
            source,
        }
    }

    fn rehearsal(&self) -> Result<Rehearsal<Agent>, ImportError> {
        let head = self.snapshot.head().map_err(|e| self.failed(e))?;
        match Rehearsal::over(&self.snapshot, head) {
            Ok(rehearsal) => Ok(rehearsal),
            // Rows of an older version are made anew when the store is opened.
            Err(_) => {
                let rows = self.snapshot.replay::<Agent>();
                Ok(Rehearsal::over(&rows.map_err(|e| self.failed(e))?, head)?)
            }
        }
    }
}

/// Opens it; `None` where there is none yet.
fn open(path: &Path) -> Result<Option<Looked>, AdminError> {
    if !path.exists() {
        return Ok(None);
    }
    let reader = open_in_time(path)?;
    let failed = |source| ImportError::Store {
        place: path.to_owned(),
        source,
    };
    let kind = reader.kind().map_err(failed)?;
    if kind.as_deref() != Some(StoreKind::Agent.name()) {
        return Err(AdminError::WrongKind {
            store: path.display().to_string(),
            found: kind.unwrap_or_else(|| "another program".to_owned()),
            wanted: owner(StoreKind::Agent),
        });
    }
    Ok(Some(Looked {
        path: path.to_owned(),
        snapshot: reader.snapshot().map_err(failed)?,
        _reader: reader,
    }))
}

/// The other program's list of peers. Where it is the identity's own, it is in force already.
fn peers(
    args: &Args,
    own: &Path,
    report: &mut Report,
) -> Option<(PathBuf, Vec<(String, PublicKey)>)> {
    let usual = args.folder().join("peers.json");
    let path = match &args.from_peers {
        Some(path) => path.clone(),
        None if usual.exists() => usual,
        None => return None,
    };
    let same = |path: &Path| path.canonicalize().ok();
    if same(&path).is_some() && same(&path) == same(own) {
        report.aside(
            &path.display().to_string(),
            "this identity's own list of peers, which is in force already",
        );
        return None;
    }
    let entries = read::peers(&path, report)?;
    Some((path, entries))
}

/// What the identity's own list says is in force before anything else is decided; with the store open
/// for writing that is the first thing that happens.
fn follow_list(rehearsal: &mut Rehearsal<Agent>, list: &Path) -> Result<(), AdminError> {
    if !list.exists() {
        return Ok(());
    }
    let bad = |reason: String| ImportError::OwnPeers { reason };
    let bytes = read::slurp(list, MAX_PEERS_FILE_BYTES).map_err(bad)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| bad(e.to_string()))?;
    let peers = Peers::parse(text).map_err(|e| bad(e.to_string()))?;
    let command = AgentCommand::ImportPeers {
        entries: peers.iter().map(|(n, key)| (n.to_owned(), key)).collect(),
        sha256: sha256(&bytes),
        newest: None,
        now: now(),
    };
    rehearsal
        .run(&command, now())
        .map_err(ImportError::from)?
        .map_err(ImportError::Refused)?;
    Ok(())
}

/// The marks of what was taken over before: from the rows, and from the log for a store whose rows are
/// not made yet.
fn marks(snapshot: &Snapshot) -> Result<BTreeSet<[u8; 32]>, ReadError> {
    let mut marks = marks_in(snapshot, TableId::ImportMarks)?;
    snapshot.frames(Seq::ZERO, |seq, bytes| {
        if is_kind(seq, bytes, EventKind::Imported)
            && let AgentEvent::Imported(e) = Recorded::from_frame(seq, bytes)?.event
        {
            marks.extend(e.marks);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(marks)
}

/// Whether a frame is of a kind. One that does not read is not.
pub(super) fn is_kind(seq: Seq, bytes: &[u8], kind: EventKind) -> bool {
    frame::parse_at(seq, bytes).is_ok_and(|frame| frame.kind == kind.number())
}

impl Plan {
    fn of(found: Found, own: PublicKey, marks: &BTreeSet<[u8; 32]>) -> Plan {
        let mut plan = Plan {
            commands: vec![],
            done_before: vec![],
        };
        if let Some((_, peers)) = found.peers {
            plan.commands.push(ImportCommand::Peers { peers });
        }
        plan.add_sessions(found.sessions, own);
        for (session, mails) in found.mail {
            plan.add_mail(&session, own, mails);
        }
        for (session, knocks) in found.knocks {
            let knocks = plan.unmarked(ImportedPart::Knocks, knocks, marks);
            if !knocks.is_empty() {
                plan.commands.push(ImportCommand::Knocks {
                    session,
                    own,
                    knocks,
                });
            }
        }
        for (session, requests) in found.requests {
            let requests = plan.unmarked(ImportedPart::Requests, requests, marks);
            if !requests.is_empty() {
                plan.commands.push(ImportCommand::Requests {
                    session,
                    own,
                    requests,
                });
            }
        }
        for mail in found.control {
            let part = ImportedPart::Control;
            if marks.contains(&pairing_mark(part, &mail.to, &mail.msg_id)) {
                plan.done_before.push((part, 1));
            } else {
                plan.commands.push(ImportCommand::Control(Box::new(mail)));
            }
        }
        plan
    }

    /// Without what was taken over before.
    fn unmarked(
        &mut self,
        part: ImportedPart,
        mut all: Vec<ImportedPairing>,
        marks: &BTreeSet<[u8; 32]>,
    ) -> Vec<ImportedPairing> {
        let before = all.len();
        all.retain(|one| !marks.contains(&pairing_mark(part, &one.key, &one.request_id)));
        self.done_before.push((part, before - all.len()));
        all
    }

    fn add_sessions(&mut self, sessions: Vec<crate::wire::public::SessionOwners>, own: PublicKey) {
        let mut owners = 0;
        let mut some: Vec<(SessionId, Vec<PublicKey>)> = vec![];
        for one in sessions {
            if owners + one.owners.len() > MAX_SIGHTINGS_PER_RECORD && !some.is_empty() {
                let sessions = std::mem::take(&mut some);
                self.commands
                    .push(ImportCommand::Sessions { own, sessions });
                owners = 0;
            }
            owners += one.owners.len();
            some.push((one.session, one.owners));
        }
        if !some.is_empty() {
            let sessions = some;
            self.commands
                .push(ImportCommand::Sessions { own, sessions });
        }
    }

    fn add_mail(&mut self, session: &SessionId, own: PublicKey, mails: Vec<ImportedMail>) {
        let mut bytes = 0;
        let mut some: Vec<ImportedMail> = vec![];
        for mail in mails {
            let full = some.len() >= MAX_IMPORTED_PER_COMMAND
                || bytes + mail.body.len() > MAX_IMPORTED_BYTES_PER_COMMAND;
            if full && !some.is_empty() {
                self.push_mail(session, own, std::mem::take(&mut some));
                bytes = 0;
            }
            bytes += mail.body.len();
            some.push(mail);
        }
        if !some.is_empty() {
            self.push_mail(session, own, some);
        }
    }

    fn push_mail(&mut self, session: &SessionId, own: PublicKey, mails: Vec<ImportedMail>) {
        self.commands.push(ImportCommand::Mail {
            session: session.clone(),
            own,
            mails,
        });
    }

    /// The sessions that get messages.
    fn mailboxes(&self) -> BTreeSet<&SessionId> {
        let sessions = self.commands.iter().filter_map(|command| match command {
            ImportCommand::Mail { session, .. } => Some(session),
            _ => None,
        });
        sessions.collect()
    }

    fn tell_unread(&self, tables: &dyn TableReader, report: &mut Report) -> Result<(), TableError> {
        for session in self.mailboxes() {
            let totals = query::unread_totals(tables, session)?;
            report.unread(session.as_str(), totals.messages);
        }
        Ok(())
    }

    fn tell_done_before(&self, report: &mut Report) {
        for (part, count) in &self.done_before {
            report.known(part.name(), *count);
        }
    }
}

/// Tries the commands; tells what would come of them, and who would be let in.
fn try_out(
    plan: &Plan,
    rehearsal: &mut Rehearsal<Agent>,
    report: &mut Report,
) -> Result<(), AdminError> {
    let peers_before = peer_keys(rehearsal.tables())?;
    let asked_before = asked_keys(rehearsal.tables())?;
    plan.tell_done_before(report);
    for command in &plan.commands {
        let wish = AgentCommand::Import(command.clone());
        let rehearsed = rehearsal
            .run(&wish, now())
            .map_err(ImportError::from)?
            .map_err(ImportError::Refused)?;
        tell(command, rehearsed.reply, report)?;
    }
    let tables = rehearsal.tables();
    plan.tell_unread(tables, report).map_err(storage)?;
    for peer in query::peers(tables).map_err(storage)? {
        if !peers_before.contains(&peer.key) {
            report
                .admits
                .push(admitted(&peer.petname, &peer.key, How::List));
        }
    }
    for request in query::outbound(tables).map_err(storage)? {
        if !asked_before.contains(&request.key) {
            let admitted = admitted(&request.row.name, &request.key, How::Request);
            report.admits.push(admitted);
        }
    }
    Ok(())
}

fn storage(e: TableError) -> ImportError {
    ImportError::Rehearsal(e.into())
}

fn peer_keys(tables: &dyn TableReader) -> Result<BTreeSet<PublicKey>, ImportError> {
    let peers = query::peers(tables).map_err(storage)?;
    Ok(peers.into_iter().map(|peer| peer.key).collect())
}

fn asked_keys(tables: &dyn TableReader) -> Result<BTreeSet<PublicKey>, ImportError> {
    let asked = query::outbound(tables).map_err(storage)?;
    Ok(asked.into_iter().map(|request| request.key).collect())
}

fn admitted(petname: &str, key: &PublicKey, how: How) -> Admitted {
    Admitted {
        petname: petname.to_owned(),
        key: key.to_string(),
        fingerprint: key.fingerprint().as_str().to_owned(),
        how,
    }
}

/// Counts what became of the things of a command.
fn tell(command: &ImportCommand, reply: AgentReply, report: &mut Report) -> Result<(), AdminError> {
    let AgentReply::TakenOver(fates) = reply else {
        return Err(ImportError::Unexpected(format!("{reply:?}")).into());
    };
    let part = command.part().name();
    for (at, fate) in fates.iter().enumerate() {
        match fate {
            Fate::Taken => report.taken(part, 1),
            Fate::Known => report.known(part, 1),
            Fate::Left(why) => report.left(part, why.name(), is_unread(command, at, *why)),
        }
    }
    Ok(())
}

/// Whether somebody still waits for what is left.
fn is_unread(command: &ImportCommand, at: usize, why: Left) -> bool {
    match command {
        ImportCommand::Mail { mails, .. } => mails.get(at).is_some_and(|mail| !mail.read),
        ImportCommand::Knocks { .. } => why == Left::Full,
        _ => false,
    }
}
