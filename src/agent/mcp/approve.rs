//! Asking the human.
//!
//! Who may write to an identity is its user's decision. A model reads what strangers write, so it can be
//! talked into anything; what it says about its user's wish proves nothing. So a tool that admits or
//! revokes somebody asks the human through a form of the host (MCP elicitation), which the model neither
//! sees nor answers. Only "accept" with the word that stands for yes counts.
//!
//! Hosts without a user in front of them answer such forms themselves, some with "cancel", some with
//! "decline", within milliseconds. Nobody reads a key in that time, so an answer that comes so soon is
//! nobody's: nothing is decided, and the caller names the line that the user can run in a terminal.
//!
//! One question stands before the user at a time, and one that was turned away is not put again for a
//! while: otherwise a model could ask until somebody presses the wrong key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::{ElicitationMode, PeerRequestOptions, ServiceError};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::line::Line;
use super::render;
use super::server::HostConnection;
use crate::agent::config::{Consent, OperatorFlags};
use crate::agent::core::Core;
use crate::domain::decide::agent::PairingCommand;
use crate::event::agent::{Origin, Question};
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;

/// How long a form waits for its user.
const PATIENCE: Duration = Duration::from_secs(600);
/// A refusal that comes sooner is the host's own.
const NOBODY_IS_SO_FAST: Duration = Duration::from_millis(700);
/// How long a question that was turned away is not put again.
const COOL_DOWN: Duration = Duration::from_secs(60);
/// Turned-away questions that are remembered.
const REMEMBERED: usize = 256;

/// Name of the form's only field.
const DECISION: &str = "decision";

/// The questions of one connection.
#[derive(Clone, Debug, Default)]
pub struct Asking(Arc<Mutex<BTreeMap<String, Instant>>>);

/// What a human is asked to allow.
#[derive(Clone, Copy, Debug)]
pub enum Wish<'a> {
    /// Let a key write to this identity.
    Admit {
        /// The key.
        key: PublicKey,
        /// The name that it would get here.
        petname: &'a str,
        /// The name that it gives itself, where it knocked.
        claimed: Option<&'a str>,
    },
    /// Ask a key for admission, which admits it here when it accepts.
    Request {
        /// The key.
        key: PublicKey,
        /// The name that it would get here.
        petname: &'a str,
        /// The name that it gives itself, where a relay shows it.
        claimed: Option<&'a str>,
    },
    /// End that.
    Revoke {
        /// The key.
        key: PublicKey,
        /// Its name here.
        petname: &'a str,
    },
    /// Save a file that the other side of a sealed session offers.
    TakeFile {
        /// Its id here.
        id: &'a str,
        /// The peer's name of it, spelled out.
        name: &'a str,
        /// Bytes.
        size: u64,
        /// Of the bytes, in digits.
        sha256: &'a str,
        /// What is in it, spelled out and bounded.
        preview: &'a str,
    },
    /// Make a peer of whoever holds the other end of a sealed session, once it proved its key there.
    Pin {
        /// The beginning of the session's routing id.
        routing: &'a str,
        /// Words that both sides see alike.
        words: Option<&'a str>,
        /// The name that it would get here; else what it calls itself.
        petname: Option<&'a str>,
    },
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing may happen without it"]
pub enum Permission {
    /// The human said yes.
    Human,
    /// Nobody is asked here: the operator chose `--consent tool`.
    Tool,
    /// The human said no.
    Declined,
    /// Nobody answered.
    Unanswered(Why),
}

/// Why nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The host has no forms.
    NotOffered,
    /// The host answered in its user's place.
    Unattended,
    /// The user closed the form without an answer.
    Dismissed,
    /// The time is over.
    TimedOut,
    /// The host's answer makes no sense, or the connection failed.
    Unreadable,
    /// The call was withdrawn, or the host is going.
    Withdrawn,
    /// Another question stands before the user.
    Busy,
    /// The same question was turned away a moment ago.
    JustAsked,
}

impl Why {
    /// The same for a model.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Why::NotOffered => "this host cannot ask its user",
            Why::Unattended => "this host answered without its user",
            Why::Dismissed => "the user closed the question without an answer",
            Why::TimedOut => "the user did not answer in time",
            Why::Unreadable => "this host's answer could not be read",
            Why::Withdrawn => "the call was withdrawn",
            Why::Busy => "another such question is before the user; wait for its end",
            Why::JustAsked => "the user turned this question away a moment ago",
        }
    }
}

impl Wish<'_> {
    /// The key that it is about, where it is about one.
    const fn key(&self) -> Option<&PublicKey> {
        match self {
            Wish::Admit { key, .. } | Wish::Request { key, .. } | Wish::Revoke { key, .. } => {
                Some(key)
            }
            Wish::TakeFile { .. } | Wish::Pin { .. } => None,
        }
    }

    /// What makes it the same question again.
    fn subject(&self) -> String {
        match self {
            Wish::Admit { key, .. } | Wish::Request { key, .. } | Wish::Revoke { key, .. } => {
                key.to_string()
            }
            Wish::TakeFile { id, sha256, .. } => format!("file {id} {sha256}"),
            Wish::Pin { routing, .. } => format!("pinning in session {routing}"),
        }
    }

    /// The words of the form's field: no, yes.
    const fn words(&self) -> [&'static str; 2] {
        match self {
            Wish::Admit { .. } => ["refuse", "admit"],
            Wish::Request { .. } => ["refuse", "request"],
            Wish::Revoke { .. } => ["keep", "revoke"],
            Wish::TakeFile { .. } => ["decline", "accept"],
            Wish::Pin { .. } => ["refuse", "pin"],
        }
    }

    fn message(&self) -> String {
        let (key, head, petname, claimed, tail) = match self {
            Wish::TakeFile {
                name,
                size,
                sha256,
                preview,
                ..
            } => {
                return format!(
                    "Save this file from the sealed session?\nSHA-256: {sha256}\nName (the peer's, not \
                     verified): \"{name}\", {size} bytes.\n\nYour agent reads it if you accept; nothing of \
                     it was shown to your agent so far. It begins:\n\n{preview}"
                );
            }
            Wish::Pin {
                routing,
                words,
                petname,
            } => {
                let name = petname.map_or_else(
                    || "what it calls itself, where that is free".to_owned(),
                    |name| format!("\"{}\"", render::label(name)),
                );
                return format!(
                    "Make a peer of the other side of this sealed session?\nBoth sides see these words: \
                     {}. Session: {routing}.\nYour name for it: {name}.\n\nIt sees your key now. Once its \
                     user agrees too, the first key that it proves in this session can send messages that \
                     your agent reads and may act on. Compare the words with the other person first.",
                    words.unwrap_or("none"),
                );
            }
            Wish::Admit {
                key,
                petname,
                claimed,
            } => (
                key,
                "Let this peer write to your agent?",
                petname,
                *claimed,
                "Whoever has this key can then send messages that your agent reads and may act on. \
                 Compare the key, or at least the fingerprint, with what its owner tells you by \
                 another way: names prove nothing.",
            ),
            Wish::Request {
                key,
                petname,
                claimed,
            } => (
                key,
                "Ask this peer to pair with you?",
                petname,
                *claimed,
                "When it accepts, it can send messages that your agent reads and may act on. Compare \
                 the key, or at least the fingerprint, with what its owner tells you by another way: \
                 names prove nothing.",
            ),
            Wish::Revoke { key, petname } => (
                key,
                "End this peer's right to write to your agent?",
                petname,
                None,
                "It can be admitted again later.",
            ),
        };
        let claimed = claimed.map_or_else(String::new, |name| {
            format!(
                " It calls itself (not verified): \"{}\"",
                render::label(name)
            )
        });
        // Hosts fold a form away after three lines: what is to be compared stands in them, and
        // before every name, however long that is.
        format!(
            "{head}\nKey: {key} Fingerprint: {}\nYour name for it: \"{}\".{claimed}\n\n{tail}",
            key.fingerprint(),
            render::label(petname),
        )
    }

    fn schema(&self) -> Option<ElicitationSchema> {
        let [no, yes] = self.words();
        let schema = json!({
            "type": "object",
            "properties": {
                DECISION: {
                    "type": "string",
                    "title": "Your decision",
                    "description": format!("{yes}, or {no}"),
                    "enum": [no, yes],
                },
            },
            "required": [DECISION],
        });
        serde_json::from_value(schema).ok()
    }
}

/// Asks the human, where that is this session's way.
pub async fn permission(core: &Core, host: &HostConnection, wish: &Wish<'_>) -> Permission {
    if core.config.consent == Consent::Tool {
        return Permission::Tool;
    }
    let Ok(mut turned_away) = host.asking.0.try_lock() else {
        return Permission::Unanswered(Why::Busy);
    };
    let now = Instant::now();
    turned_away.retain(|_, at| now.duration_since(*at) < COOL_DOWN);
    if turned_away.contains_key(&wish.subject()) {
        return Permission::Unanswered(Why::JustAsked);
    }
    let answer = ask(host, wish).await;
    let remember = matches!(
        answer,
        Permission::Declined | Permission::Unanswered(Why::Dismissed | Why::TimedOut)
    );
    if remember && turned_away.len() < REMEMBERED {
        turned_away.insert(wish.subject(), Instant::now());
    }
    tracing::info!("asked about {}: {answer:?}", wish.subject());
    answer
}

async fn ask(host: &HostConnection, wish: &Wish<'_>) -> Permission {
    let forms = host.peer.supported_elicitation_modes();
    let Some(requested_schema) = wish.schema() else {
        return Permission::Unanswered(Why::Unreadable);
    };
    if !forms.contains(&ElicitationMode::Form) {
        return Permission::Unanswered(Why::NotOffered);
    }
    let request = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: wish.message(),
        requested_schema,
    });
    let mut options = PeerRequestOptions::no_options();
    options.timeout = Some(PATIENCE);
    let asked = Instant::now();
    let sent = host
        .peer
        .send_cancellable_request(ServerRequest::ElicitRequest(request), options)
        .await;
    let handle = match sent {
        Ok(handle) => handle,
        Err(e) => {
            tracing::warn!("the user cannot be asked: {e}");
            return Permission::Unanswered(Why::Unreadable);
        }
    };
    let id = handle.id.clone();
    let answer = tokio::select! {
        answer = handle.await_response() => answer,
        listens = host.withdrawn() => {
            // The form must not outlive its call; a host that goes takes it along.
            if listens {
                let reason = Some("the call was withdrawn".to_owned());
                let notice = CancelledNotificationParam::new(Some(id), reason);
                let _ = host.peer.notify_cancelled(notice).await;
            }
            return Permission::Unanswered(Why::Withdrawn);
        }
    };
    match answer {
        Ok(ClientResult::ElicitResult(result)) => {
            judge(&result, wish, asked.elapsed() < NOBODY_IS_SO_FAST)
        }
        Ok(_) => Permission::Unanswered(Why::Unreadable),
        Err(ServiceError::Timeout { .. }) => Permission::Unanswered(Why::TimedOut),
        Err(e) => {
            tracing::warn!("the user cannot be asked: {e}");
            Permission::Unanswered(Why::Unreadable)
        }
    }
}

/// What a host's answer means. `at_once`: sooner than anybody can read.
fn judge(result: &ElicitResult, wish: &Wish<'_>, at_once: bool) -> Permission {
    let [no, yes] = wish.words();
    let word = result
        .content
        .as_ref()
        .and_then(|content| content.get(DECISION))
        .and_then(Value::as_str);
    match (&result.action, word) {
        (ElicitationAction::Accept, Some(word)) if word == yes => Permission::Human,
        (ElicitationAction::Decline | ElicitationAction::Cancel, _) if at_once => {
            Permission::Unanswered(Why::Unattended)
        }
        (ElicitationAction::Accept, Some(word)) if word == no => Permission::Declined,
        (ElicitationAction::Decline, _) => Permission::Declined,
        (ElicitationAction::Cancel, _) => Permission::Unanswered(Why::Dismissed),
        _ => Permission::Unanswered(Why::Unreadable),
    }
}

/// Asks for consent; gives how it came in, or what to answer without it. `line` is what the user can
/// run instead.
///
/// # Errors
///
/// [`Refusal`]: nothing may change.
pub async fn consent(
    core: &Core,
    host: &HostConnection,
    wish: &Wish<'_>,
    question: Question,
    line: &Line,
) -> Result<Origin, Refusal> {
    let answer = permission(core, host, wish).await;
    if answer == Permission::Declined {
        record(core, wish, question).await;
    }
    match answer {
        Permission::Human => Ok(Origin::Human),
        Permission::Tool => Ok(Origin::Tool),
        Permission::Declined => Err(Refusal {
            declined: true,
            note: "The user said no. Nothing has changed; do not ask again unless the user wants \
                   it."
            .to_owned(),
            command: None,
        }),
        Permission::Unanswered(why) => Err(unanswered(
            core.config.operator.as_ref(),
            why,
            line,
            Naming::Identity,
        )),
    }
}

/// A "no" is a fact for the operator to see, whatever becomes of the call.
async fn record(core: &Core, wish: &Wish<'_>, question: Question) {
    let (Ok(lease), Some(key)) = (core.require_lease(), wish.key()) else {
        return;
    };
    let command = PairingCommand::Decline {
        lease,
        question,
        key: *key,
        now: core.clock.now(),
    };
    if let Err(e) = core.submit(command.into()).await {
        tracing::warn!("the user's refusal could not be recorded: {e}");
    }
}

/// What a tool answers when it has no permission: the words, and the line to run, where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whether a human said no.
    pub declined: bool,
    /// For the model.
    pub note: String,
    /// For the user's terminal.
    pub command: Option<String>,
}

/// Which flags a line needs to mean this identity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Naming {
    /// Its key, and its store where it is elsewhere.
    Identity,
    /// Its store where it is elsewhere.
    Store,
}

pub(super) fn unanswered(
    operator: Option<&OperatorFlags>,
    why: Why,
    line: &Line,
    naming: Naming,
) -> Refusal {
    let why = why.text();
    let Some(operator) = operator else {
        return Refusal {
            declined: false,
            note: format!(
                "Nothing has changed: {why}. This session keeps its log where interlink-admin cannot \
                 reach it, so the user has to start it in a host that can ask, or with --consent tool."
            ),
            command: None,
        };
    };
    let command = line.of_identity(match naming {
        Naming::Identity => &operator.identity,
        Naming::Store => &operator.store,
    });
    Refusal {
        declined: false,
        note: format!(
            "Nothing has changed: {why}. Only the user can decide this. Show the user this line to \
             run in a terminal of their own, and do not run it yourself: {command}"
        ),
        command: Some(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::sign::SigningIdentity;
    use crate::types::secret::Secret;

    fn key() -> PublicKey {
        SigningIdentity::from_seed(&Secret::new([7; 32])).public()
    }

    fn admit(claimed: Option<&str>) -> Wish<'_> {
        Wish::Admit {
            key: key(),
            petname: "bob",
            claimed,
        }
    }

    #[test]
    fn only_an_accepted_form_with_the_word_of_consent_is_consent() {
        use ElicitationAction::{Accept, Cancel, Decline};
        let yes = json!({ "decision": "admit" });
        let cases = [
            (Accept, Some(yes.clone()), true, Permission::Human),
            (Accept, Some(yes.clone()), false, Permission::Human),
            (Decline, Some(yes.clone()), false, Permission::Declined),
            (
                Cancel,
                Some(yes),
                false,
                Permission::Unanswered(Why::Dismissed),
            ),
            (
                Accept,
                Some(json!({ "decision": "refuse" })),
                false,
                Permission::Declined,
            ),
            (Accept, None, false, Permission::Unanswered(Why::Unreadable)),
            (
                Accept,
                Some(json!({})),
                false,
                Permission::Unanswered(Why::Unreadable),
            ),
            (
                Accept,
                Some(json!({ "decision": true })),
                false,
                Permission::Unanswered(Why::Unreadable),
            ),
            (
                Accept,
                Some(json!({ "decision": "revoke" })),
                false,
                Permission::Unanswered(Why::Unreadable),
            ),
            (
                Accept,
                Some(json!("admit")),
                false,
                Permission::Unanswered(Why::Unreadable),
            ),
            (Decline, None, true, Permission::Unanswered(Why::Unattended)),
            (Cancel, None, true, Permission::Unanswered(Why::Unattended)),
        ];
        for (action, content, at_once, wanted) in cases {
            let mut result = ElicitResult::new(action.clone());
            result.content = content.clone();
            let judged = judge(&result, &admit(None), at_once);
            assert_eq!(judged, wanted, "{action:?} {content:?} {at_once}");
        }
    }

    #[test]
    fn the_question_names_the_whole_key_and_no_claimed_name_can_imitate_it() {
        let text = admit(Some("x\"\nKey: AAAA\u{202e}\n")).message();
        assert_eq!(text.matches("\nKey: ").count(), 1, "{text}");
        let line = format!("Key: {} Fingerprint: {}", key(), key().fingerprint());
        assert_eq!(text.lines().nth(1), Some(line.as_str()), "{text}");
        assert!(
            text.lines()
                .nth(2)
                .is_some_and(|line| line.contains("calls itself"))
        );
        assert!(text.contains("(not verified): \"x\\u{22}\\u{a}Key: AAAA\\u{202e}\\u{a}\"\n"));
        let long = "y".repeat(10_000);
        assert!(admit(Some(&long)).message().len() < 1_000);
    }

    #[test]
    fn the_form_has_one_field_and_its_first_word_is_no() {
        for wish in [
            admit(None),
            Wish::Revoke {
                key: key(),
                petname: "bob",
            },
        ] {
            let schema = serde_json::to_value(wish.schema().unwrap()).unwrap();
            assert_eq!(schema["required"], json!(["decision"]));
            assert_eq!(schema["properties"].as_object().unwrap().len(), 1);
            assert_eq!(
                schema["properties"]["decision"]["enum"],
                json!(wish.words())
            );
        }
    }
}
