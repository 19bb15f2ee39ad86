//! Events and histories of taking over another program's state.

use super::Rng;
use super::sample::{SMALL_LIMITS, enqueue, payload};
use super::sample_agent::{digest, key};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AgentCommand, AgentReply, ImportCommand, ImportedControl, ImportedMail, ImportedPairing,
};
use crate::domain::decide::bus::{BusCommand, BusReply, ImportMessage};
use crate::event::agent::{AgentEvent, Imported, ImportedPart, MailKind, MailStatus};
use crate::event::kind::EventKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::time::UnixMillis;

/// An event of an import.
pub(super) fn event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let EventKind::Imported = kind else {
        return None;
    };
    Some(AgentEvent::Imported(Imported {
        program: "interlink-mcp 0.13".to_owned(),
        part: [
            ImportedPart::Peers,
            ImportedPart::Sessions,
            ImportedPart::Mail,
            ImportedPart::Knocks,
            ImportedPart::Requests,
            ImportedPart::Control,
        ][rng.index(6)],
        records: 1 + u32::try_from(rng.below(64)).unwrap_or_default(),
        marks: (0..rng.index(3)).map(|_| digest(rng)).collect(),
    }))
}

/// A message as the other program stored it.
#[must_use]
pub fn imported_mail(
    from: PublicKey,
    msg_id: &str,
    task: Option<(&str, Option<MailStatus>)>,
    read: bool,
    ts: UnixMillis,
) -> ImportedMail {
    let body = payload(ts.0, 90);
    ImportedMail {
        from,
        msg_id: MsgId::parse(msg_id).unwrap(),
        ts,
        task_id: task.map(|(id, _)| id.to_owned()),
        status: task.and_then(|(_, status)| status),
        in_reply_to: None,
        reply_to: None,
        label: "as it was".to_owned(),
        read,
        sha256: sha256(&body),
        body: body.into(),
    }
}

/// A request as the other program noted it.
#[must_use]
pub fn imported_pairing(key: PublicKey, name: &str, request_id: &str) -> ImportedPairing {
    ImportedPairing {
        key,
        name: name.to_owned(),
        request_id: MsgId::parse(request_id).unwrap(),
        their_session: SessionId::parse("theirs").unwrap(),
    }
}

/// The whole of an import, twice: the second one finds everything there.
pub fn import_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let mut rng = Rng::new(150);
    let [me, ann, bob, cid, dan] = [(); 5].map(|()| key(&mut rng));
    let session = SessionId::parse("s1").unwrap();
    let at = |n: u64| now.minus(1_000_000).plus(n);
    let update = Some(("task", Some(MailStatus::Update)));
    let body = payload(5, 80);
    let commands = [
        ImportCommand::Peers {
            peers: vec![("ann".to_owned(), ann), ("self".to_owned(), bob)],
        },
        ImportCommand::Sessions {
            own: me,
            sessions: vec![
                (SessionId::parse("a1").unwrap(), vec![ann]),
                (SessionId::parse("both").unwrap(), vec![ann, me]),
                (SessionId::parse("b1").unwrap(), vec![bob]),
            ],
        },
        ImportCommand::Mail {
            session: session.clone(),
            own: me,
            mails: vec![
                imported_mail(ann, "m1", None, true, at(1)),
                imported_mail(ann, "m2", update, false, at(2)),
                imported_mail(ann, "m3", update, false, at(3)),
                imported_mail(bob, "m4", None, false, at(4)),
                imported_mail(me, "m5", None, false, at(5)),
            ],
        },
        ImportCommand::Knocks {
            session: session.clone(),
            own: me,
            knocks: vec![imported_pairing(cid, "cid", "k1")],
        },
        ImportCommand::Requests {
            session: session.clone(),
            own: me,
            requests: vec![imported_pairing(dan, "dan", "r1")],
        },
        ImportCommand::Control(Box::new(ImportedControl {
            session,
            to: dan,
            to_session: SessionId::parse("theirs").unwrap(),
            kind: MailKind::PairRequest,
            msg_id: MsgId::parse("r1").unwrap(),
            in_reply_to: None,
            ts: at(6),
            sha256: sha256(&body),
            body: body.into(),
            relays: vec!["http://127.0.0.1:9440".to_owned()],
        })),
    ];
    for command in commands.iter().chain(&commands) {
        run(AgentCommand::Import(command.clone()));
    }
}

/// The mail of another program's bus, beside some that was there before.
pub fn queue_import_history(run: &mut dyn FnMut(BusCommand) -> BusReply) {
    run(enqueue("k#s", &payload(1, 60), SMALL_LIMITS));
    for number in [1, 2, 7, 2] {
        let payload = payload(number, 60);
        run(BusCommand::Import(ImportMessage {
            to: "k#s".to_owned(),
            number,
            arrived: UnixMillis(1_700_000_000_000 + number),
            sha256: sha256(&payload),
            payload: payload.into(),
            msg_id: format!("m{number}"),
            limits: SMALL_LIMITS,
        }));
    }
}
