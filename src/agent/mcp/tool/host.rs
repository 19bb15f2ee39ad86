//! What hosts' hooks say, and what they are told: which conversation runs, and whether a turn may
//! end while mail waits.
//!
//! The answer of a hook is JSON that the host acts on, so it is the whole text of the result and
//! nothing is added to it.

use std::sync::Arc;

use rmcp::model::{JsonObject, RequestMetaObject};
use serde_json::{Value, json};

use crate::agent::core::Core;
use crate::agent::host::{HostConfig, codex, notice_in, notice_text};
use crate::agent::lease::Right;
use crate::agent::lifecycle::is_alive;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::reply::{Answer, FailedDeliveries, FailedDelivery};
use crate::agent::runtime::Supervisor;
use crate::domain::decide::agent::{AgentCommand, HostCommand};
use crate::domain::machine::notice::NoticeView;
use crate::domain::query::agent as query;
use crate::event::agent::NoticePath;
use crate::types::id::SessionId;
use crate::types::time::Clock as _;

/// Longest id of a conversation of Claude Code in bytes.
const MAX_CLAUDE_ID_BYTES: usize = 128;

/// Said once at the start of a conversation.
const GREETING: &str = "Interlink is connected. Call set_summary once with one line on what this \
session works on, so that others find it. Mail announces itself; do not poll.";

/// Whether a model made the call. Hooks carry no id of a call.
#[must_use]
pub fn is_model(meta: &RequestMetaObject) -> bool {
    ["claudecode/toolUseId", "callId"]
        .iter()
        .any(|key| meta.0.0.contains_key(*key))
}

/// The thread that Codex names with every call.
fn thread_of(meta: &RequestMetaObject) -> Option<&str> {
    meta.0.0.get("threadId").and_then(Value::as_str)
}

/// The session that acts for a call of an ordinary tool. A thread that Codex names is bound by its
/// first call.
///
/// # Errors
///
/// [`ToolError::Invalid`] when no session is known, or another one is bound.
pub fn session_for(
    supervisor: &Supervisor,
    meta: &RequestMetaObject,
) -> Result<Arc<Core>, ToolError> {
    let config = &supervisor.base.config.host;
    if matches!(config, HostConfig::Codex { .. })
        && let Some(thread) = thread_of(meta)
    {
        return bind_thread(supervisor, thread);
    }
    supervisor.core().ok_or_else(|| {
        let missing = match config {
            HostConfig::Codex { .. } => "no Codex thread is bound yet",
            _ => {
                "no conversation is bound yet: the hooks of the plugin name it at the first prompt"
            }
        };
        ToolError::Invalid(missing.to_owned())
    })
}

fn bind_thread(supervisor: &Supervisor, thread: &str) -> Result<Arc<Core>, ToolError> {
    if !codex::is_thread_id(thread) {
        return Err(ToolError::Invalid("`thread_id` is not a UUID".to_owned()));
    }
    let session = SessionId::parse(thread).map_err(|e| ToolError::Invalid(e.to_string()))?;
    if let Some(core) = supervisor.core()
        && core.session != session
    {
        return Err(ToolError::Invalid(format!(
            "this server is bound to thread {}; another thread needs a server of its own",
            core.session
        )));
    }
    bind(supervisor, &session)
}

fn bind(supervisor: &Supervisor, session: &SessionId) -> Result<Arc<Core>, ToolError> {
    supervisor
        .bind(session)
        .map_err(|e| ToolError::Local(e.to_string()))
}

/// `bind_codex_session`
///
/// # Errors
///
/// [`ToolError`].
pub async fn bind_codex_session(
    supervisor: &Supervisor,
    meta: &RequestMetaObject,
    a: args::BindCodexSession,
) -> Result<Value, ToolError> {
    let core = codex_hook(supervisor, meta, &a.thread_id)?;
    prompted(&core, a.prompt.as_deref()).await;
    Ok(greeting(supervisor, a.hook_event_name.as_deref()))
}

/// `check_codex_inbox`
///
/// # Errors
///
/// [`ToolError`].
pub async fn check_codex_inbox(
    supervisor: &Supervisor,
    meta: &RequestMetaObject,
    a: args::CheckCodexInbox,
) -> Result<Value, ToolError> {
    let core = codex_hook(supervisor, meta, &a.thread_id)?;
    guard(&core, a.stop_hook_active.get(), Guard::WheneverMailWaits).await
}

/// The argument is the host's word too, but `_meta` is the better one where it has it.
fn codex_hook(
    supervisor: &Supervisor,
    meta: &RequestMetaObject,
    thread: &str,
) -> Result<Arc<Core>, ToolError> {
    if !matches!(supervisor.base.config.host, HostConfig::Codex { .. }) {
        return Err(ToolError::Invalid(
            "this server was not started with --host codex".to_owned(),
        ));
    }
    if thread_of(meta).is_some_and(|said| said != thread) {
        return Err(ToolError::Invalid(
            "`thread_id` is not the thread of this call".to_owned(),
        ));
    }
    bind_thread(supervisor, thread)
}

/// `bind_claude_session`
///
/// # Errors
///
/// [`ToolError`].
pub async fn bind_claude_session(
    supervisor: &Supervisor,
    a: args::BindClaudeSession,
) -> Result<Value, ToolError> {
    if !is_managed(supervisor) {
        return Err(ToolError::Invalid(
            "this server is not bound by hooks; start it with --claude-session-hooks".to_owned(),
        ));
    }
    let session = claude_id(&a.session_id)?;
    if !a.take_over.is_some_and(args::Flag::get) {
        stays_where_it_is(supervisor, &session).await?;
    }
    let core = bind(supervisor, &session)?;
    prompted(&core, a.prompt.as_deref()).await;
    Ok(greeting(supervisor, a.hook_event_name.as_deref()))
}

/// Refuses a conversation that another server of this identity serves. The newest server wins a
/// session that it was started for, but a hook's word is only a word: whoever can call the tool would
/// end a conversation that runs.
async fn stays_where_it_is(supervisor: &Supervisor, session: &SessionId) -> Result<(), ToolError> {
    if supervisor.core().is_some_and(|c| c.session == *session) {
        return Ok(());
    }
    let wanted = session.clone();
    let row = supervisor
        .base
        .ledger
        .read(move |s| Ok(query::lease(s, &wanted)?))
        .await;
    // A store that does not answer says nothing against it.
    let holder = row.ok().flatten().and_then(|row| row.holder);
    match holder {
        Some(holder)
            if holder.pid != std::process::id() && is_alive(holder.pid, holder.process_start) =>
        {
            Err(ToolError::Invalid(format!(
                "conversation {session} is served by process {} already. Close it there, or start \
                 another conversation here (/clear); to have it here all the same, call \
                 bind_claude_session with take_over=true",
                holder.pid
            )))
        }
        _ => Ok(()),
    }
}

/// `end_claude_session`
///
/// # Errors
///
/// [`ToolError`].
pub fn end_claude_session(
    supervisor: &Supervisor,
    a: &args::EndClaudeSession,
) -> Result<Value, ToolError> {
    if !is_managed(supervisor) {
        return Err(ToolError::Invalid(
            "this server is not bound by hooks; it ends with its host".to_owned(),
        ));
    }
    supervisor.end(&claude_id(&a.session_id)?);
    Ok(json!({}))
}

/// `check_claude_inbox`
///
/// # Errors
///
/// [`ToolError`].
pub async fn check_claude_inbox(
    supervisor: &Supervisor,
    a: args::CheckClaudeInbox,
) -> Result<Value, ToolError> {
    let claude = matches!(supervisor.base.config.host, HostConfig::Claude { .. });
    let core = supervisor.core().filter(|_| claude);
    match core.filter(|core| core.session.as_str() == a.session_id) {
        Some(core) => guard(&core, a.stop_hook_active.get(), Guard::StartedNotices).await,
        None => Ok(json!({})),
    }
}

fn is_managed(supervisor: &Supervisor) -> bool {
    let host = &supervisor.base.config.host;
    matches!(host, HostConfig::Claude { managed: true, .. })
}

fn claude_id(text: &str) -> Result<SessionId, ToolError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if text.is_empty() || text.len() > MAX_CLAUDE_ID_BYTES || !text.bytes().all(plain) {
        return Err(ToolError::Invalid(format!(
            "`session_id` has 1 to {MAX_CLAUDE_ID_BYTES} letters, digits, - and _"
        )));
    }
    SessionId::parse(text).map_err(|e| ToolError::Invalid(e.to_string()))
}

/// A prompt that carries a notice proves that the notice arrived.
async fn prompted(core: &Core, prompt: Option<&str>) {
    let Some(id) = prompt.and_then(notice_in) else {
        return;
    };
    let Ok(lease) = core.await_lease().await else {
        return;
    };
    let wish = HostCommand::Started {
        id: id.to_owned(),
        now: core.clock.now(),
    };
    if let Err(e) = core.submit(AgentCommand::Host { lease, wish }).await {
        tracing::debug!("the notice could not be marked as started: {e}");
    }
}

fn greeting(supervisor: &Supervisor, event: Option<&str>) -> Value {
    let known = ["SessionStart", "UserPromptSubmit", "PreToolUse"];
    let event = event.and_then(|event| known.into_iter().find(|known| *known == event));
    match event {
        Some(event) if supervisor.greet() => json!({
            "hookSpecificOutput": { "hookEventName": event, "additionalContext": GREETING },
        }),
        _ => json!({}),
    }
}

/// When the end of a turn is guarded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// Only turns that began with a notice.
    StartedNotices,
    /// Every turn.
    WheneverMailWaits,
}

/// Whether a turn may end. It is held up once at most.
async fn guard(core: &Core, active: bool, guard: Guard) -> Result<Value, ToolError> {
    let session = core.session.clone();
    let (totals, notice, host) = core
        .ledger
        .read(move |s| {
            Ok((
                query::unread_totals(s, &session)?,
                query::notice(s, &session)?,
                query::host(s, &session)?,
            ))
        })
        .await?;
    let started = host
        .and_then(|host| host.started)
        .filter(|id| notice.as_ref().is_some_and(|notice| notice.id == *id));
    if started.is_none() && guard == Guard::StartedNotices {
        return Ok(json!({}));
    }
    if totals.attention == 0 {
        let outstanding = notice.is_some_and(|notice| !notice.observed);
        if let (Some(id), true, Right::Held(lease)) = (started, outstanding, core.lease.now()) {
            let observe = AgentCommand::ObserveNotice {
                lease,
                id: Some(id),
                reset: false,
                now: core.clock.now(),
            };
            if let Err(e) = core.submit(observe).await {
                tracing::debug!("notice: {e}");
            }
        }
        return Ok(json!({}));
    }
    Ok(verdict(totals.attention, started.as_deref(), active))
}

/// Holds the end of a turn up, or lets it pass with a warning to the user.
#[must_use]
pub fn verdict(unread: usize, notice: Option<&str>, active: bool) -> Value {
    let mail = match unread {
        1 => "1 Interlink message is".to_owned(),
        n => format!("{n} Interlink messages are"),
    };
    if active {
        let text = format!("{mail} still unread. The next prompt can have them read.");
        return json!({ "systemMessage": text });
    }
    let mut arguments = JsonObject::new();
    if let Some(id) = notice {
        arguments.insert("notification_id".to_owned(), Value::from(id));
    }
    let arguments = Value::Object(arguments);
    json!({
        "decision": "block",
        "reason": format!(
            "{mail} unread. Call receive_messages with {arguments}, read, then \
             acknowledge_messages before acting."
        ),
    })
}

/// `failed_deliveries`
///
/// # Errors
///
/// [`ToolError`].
pub async fn failed_deliveries(
    core: &Core,
    a: args::FailedDeliveries,
) -> Result<Answer<FailedDeliveries>, ToolError> {
    let failures = failures(core).await?;
    let action = a.action.trim();
    if action == "list" {
        let text = serde_json::to_string(&failures)
            .map_err(|e| ToolError::Local(format!("the answer cannot be written: {e}")))?;
        return Ok(Answer {
            text,
            data: FailedDeliveries {
                failed: failures,
                text: None,
            },
        });
    }
    let id = a.id.as_deref().map(str::trim).unwrap_or_default();
    let Some(failure) = failures.into_iter().find(|failure| failure.id == id) else {
        return Err(ToolError::Invalid(format!(
            "no failed delivery has id {id:?}; see action list"
        )));
    };
    let codex = matches!(core.config.host, HostConfig::Codex { .. });
    let retry = match action {
        "read" => {
            let text = notice_of(core, &failure.id).await?;
            return Ok(Answer {
                text: text.clone(),
                data: FailedDeliveries {
                    failed: vec![failure],
                    text: Some(text),
                },
            });
        }
        "retry" if codex => true,
        "retry" => {
            return Err(ToolError::Invalid(
                "only a Codex host can be tried again; other ways are tried by themselves"
                    .to_owned(),
            ));
        }
        "discard" => false,
        _ => {
            return Err(ToolError::Invalid(
                "`action` is list, read, retry or discard".to_owned(),
            ));
        }
    };
    let lease = core.await_lease().await?;
    let wish = HostCommand::Clear { retry };
    core.submit(AgentCommand::Host { lease, wish }).await?;
    let text = if retry {
        "It is tried again at once."
    } else {
        "Discarded. The mail itself is still there: receive_messages."
    };
    Ok(Answer {
        text: text.to_owned(),
        data: FailedDeliveries {
            failed: vec![],
            text: Some(text.to_owned()),
        },
    })
}

async fn failures(core: &Core) -> Result<Vec<FailedDelivery>, ToolError> {
    let session = core.session.clone();
    let host = core
        .ledger
        .read(move |s| Ok(query::host(s, &session)?))
        .await?;
    let Some(failed) = host.and_then(|host| host.failed) else {
        return Ok(vec![]);
    };
    let text = notice_of(core, &failed.id).await?;
    Ok(vec![FailedDelivery {
        bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        id: failed.id.clone(),
        msg_id: failed.id,
        reason: format!("{}: {}", failed.path.state_name(), failed.reason),
        sender: "Interlink".to_owned(),
        failed_at_ms: failed.at.0,
    }])
}

/// The text of a notice as it would be given now.
async fn notice_of(core: &Core, id: &str) -> Result<String, ToolError> {
    let session = core.session.clone();
    let totals = core
        .ledger
        .read(move |s| Ok(query::unread_totals(s, &session)?))
        .await?;
    Ok(notice_text(&NoticeView {
        id: id.to_owned(),
        path: NoticePath::HostQueue,
        unanswered: None,
        attempt: 1,
        offers: 0,
        attention: totals.attention,
        news: totals.news.count,
    }))
}
