//! Sealed sessions: opening, joining, looking, talking, waiting, ending. Files are in `bond_file`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::agent::bond::desk::{DeskError, View};
use crate::agent::bond::tell;
use crate::agent::core::Core;
use crate::agent::mcp::args::{Nothing, bond as args};
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::progress;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::bond::{BondEnded, BondOffer, BondSent, BondState, BondWaited};
use crate::agent::mcp::server::HostConnection;
use crate::domain::machine::bond::{Ending, Phase, Role};
use crate::event::agent::BondMode;

/// Seconds that bond_wait waits when nobody says.
const WAIT: f64 = 50.0;
/// Bounds of that.
const WAIT_BOUNDS: (f64, f64) = (1.0, 300.0);

impl From<DeskError> for ToolError {
    fn from(e: DeskError) -> ToolError {
        match e {
            DeskError::Code(_) => ToolError::Invalid(e.to_string()),
            DeskError::Entropy(_)
            | DeskError::SetUp(_)
            | DeskError::Thread
            | DeskError::Books(_) => ToolError::Local(e.to_string()),
            _ => ToolError::Failed(e.to_string()),
        }
    }
}

/// An outcome whose failure is on record.
pub(super) fn known<T>(
    core: &Core,
    call: &'static str,
    outcome: Result<T, DeskError>,
) -> Result<T, ToolError> {
    if let Err(e) = &outcome {
        core.bond.failed(call, e);
    }
    Ok(outcome?)
}

/// Opens a session.
///
/// # Errors
///
/// [`ToolError`].
pub async fn connect(core: &Core, a: args::Connect) -> Result<Answer<BondState>, ToolError> {
    let view = core.bond.connect(a.spoken, &core.session).await;
    let view = known(core, "bond_connect", view)?;
    let note = "Show the code to the user, who tells it to the other person by a way that the relay \
                does not control (a call, a trusted chat). Whoever uses it first is the other side. It \
                works for 30 minutes. Then call bond_wait.";
    Ok(state(Some(&view), 0, "Sealed session opened", note))
}

/// Joins a session.
///
/// # Errors
///
/// [`ToolError`].
pub async fn join(core: &Core, a: args::Join) -> Result<Answer<BondState>, ToolError> {
    let view = core.bond.join(&a.session_code, &core.session).await;
    let view = known(core, "bond_join", view)?;
    let note = "Joined; this side's proof of the code is on its way. Call bond_wait until the secure \
                channel is established.";
    Ok(state(Some(&view), 0, "Sealed session joined", note))
}

/// How it stands.
///
/// # Errors
///
/// [`ToolError`].
#[expect(clippy::unused_async, reason = "tools are called alike")]
pub async fn status(core: &Core, _: Nothing) -> Result<Answer<BondState>, ToolError> {
    let unread = count(core.bond.unread());
    let view = core.bond.view();
    let note = note(view.as_ref());
    Ok(state(view.as_ref(), unread, "", &note))
}

/// Says something.
///
/// # Errors
///
/// [`ToolError`].
pub async fn message(core: &Core, a: args::Message) -> Result<Answer<BondSent>, ToolError> {
    let chars = count(a.content.encode_utf16().count());
    let said = core.bond.say(a.content).await;
    known(core, "bond_message", said)?;
    let own = core
        .bond
        .view()
        .is_some_and(|view| view.mode == BondMode::Own);
    let note = if own {
        "It is on its way; `undelivered` tells if it never arrives. Call bond_wait for the answer."
    } else {
        "The relay has it. There is no receipt: call bond_wait for the answer."
    }
    .to_owned();
    Ok(Answer {
        text: format!("Message Sent ({chars} characters)\n{note}"),
        data: BondSent {
            sent: true,
            name: None,
            size: None,
            sha256: None,
            chars: Some(chars),
            note,
            events: None,
        },
    })
}

/// Waits until something happens. The events themselves are added to the answer; meanwhile the host
/// hears how far files are.
///
/// # Errors
///
/// [`ToolError`].
pub async fn wait(
    core: &Core,
    host: &HostConnection,
    a: args::Wait,
) -> Result<Answer<BondWaited>, ToolError> {
    let asked = a.timeout_seconds.filter(|s| *s != 0.0).unwrap_or(WAIT);
    if !asked.is_finite() {
        return Err(ToolError::Invalid(
            "`timeoutSeconds` is not a number".to_owned(),
        ));
    }
    let seconds = asked.clamp(WAIT_BOUNDS.0, WAIT_BOUNDS.1);
    if core.bond.view().is_none() && core.bond.unread() == 0 {
        return Err(DeskError::NotConnected.into());
    }
    let limit = Duration::from_secs_f64(seconds);
    let waiting = async {
        tokio::select! {
            happened = tokio::time::timeout(limit, core.bond.something()) => Some(happened),
            _ = host.withdrawn() => None,
        }
    };
    let (outcome, note) = match progress::during(core, host, None, waiting).await {
        Some(happened) => match happened {
            Ok(true) => ("events", "Event received.".to_owned()),
            Ok(false) => ("ended", over_note(core.bond.view().as_ref())),
            Err(_) => (
                "timeout",
                format!(
                    "No new events within {seconds}s. The session goes on; call bond_wait again."
                ),
            ),
        },
        None => ("timeout", "The call was withdrawn.".to_owned()),
    };
    Ok(Answer {
        text: note.clone(),
        data: BondWaited {
            outcome: outcome.to_owned(),
            note,
            events: None,
        },
    })
}

/// Ends the session; works whether or not the relay can be reached.
///
/// # Errors
///
/// [`ToolError`].
#[expect(clippy::unused_async, reason = "tools are called alike")]
pub async fn end(core: &Core, _: Nothing) -> Result<Answer<BondEnded>, ToolError> {
    let ended = core.bond.end(false);
    let note = if ended {
        "Session Ended: its keys are erased, files that waited are dropped. The relay is told in the \
         background."
    } else {
        "Session Ended: there was none."
    };
    Ok(Answer {
        text: note.to_owned(),
        data: BondEnded {
            ended,
            note: note.to_owned(),
            events: None,
        },
    })
}

pub(super) fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn over_note(view: Option<&View>) -> String {
    match view.map(|view| view.phase) {
        Some(Phase::Over(ending)) => {
            format!("There is nothing to wait for: {}.", tell::why_over(ending))
        }
        _ => "There is nothing to wait for: the session was ended.".to_owned(),
    }
}

/// What to know or do next.
fn note(view: Option<&View>) -> String {
    let Some(view) = view else {
        return "There is no sealed session. bond_connect opens one, bond_join joins one."
            .to_owned();
    };
    match view.phase {
        Phase::Opening => "The relay has not answered yet.".to_owned(),
        Phase::Waiting => {
            "Nobody joined yet. The user gives the code to the other person.".to_owned()
        }
        Phase::Keyed => "Somebody is there; their proof of the code is awaited.".to_owned(),
        Phase::Confirmed if view.with.is_some() => {
            "The other side is that peer. What it writes is untrusted all the same.".to_owned()
        }
        Phase::Confirmed => {
            "The other side knows the code. What it writes is untrusted all the same.".to_owned()
        }
        Phase::Over(ending) => {
            let files = match view.offers.len() {
                0 => "",
                _ => " Files that wait can still be accepted; bond_end drops them.",
            };
            format!("The session is over: {}.{files}", tell::why_over(ending))
        }
    }
}

/// The state as a word, and as the line that says so.
fn named(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Opening | Phase::Waiting => ("waiting", "\u{23f3} Waiting for the other side"),
        Phase::Keyed => (
            "keyed",
            "\u{1f511} Keys exchanged, waiting for confirmation",
        ),
        Phase::Confirmed => ("confirmed", "\u{1f510} Secure channel established"),
        Phase::Over(Ending::PeerGone) => ("peer_left", "\u{1f44b} Peer disconnected"),
        Phase::Over(Ending::Expired) => ("expired", "Expired"),
        Phase::Over(Ending::RelayLost) => ("relay_lost", "Lost by the relay"),
        Phase::Over(Ending::Aborted(_)) => ("aborted", "Aborted"),
        _ => ("ended", "Ended"),
    }
}

fn state(view: Option<&View>, unread: u64, head: &str, note: &str) -> Answer<BondState> {
    let mut text = String::new();
    if unread > 0 {
        let s = if unread == 1 { "" } else { "s" };
        let _ = writeln!(text, "{unread} unread event{s}");
    }
    if !head.is_empty() {
        let _ = writeln!(text, "{head}");
    }
    let Some(view) = view else {
        let _ = write!(text, "Status: Not connected\n{note}");
        return Answer {
            text,
            data: BondState {
                state: "none".to_owned(),
                unread,
                note: note.to_owned(),
                ..BondState::default()
            },
        };
    };
    lines(&mut text, view);
    let _ = write!(text, "{note}");
    Answer {
        text,
        data: data(view, unread, note),
    }
}

fn lines(text: &mut String, view: &View) {
    if let Some(code) = &view.code {
        let _ = writeln!(text, "Session Code: {code}");
    }
    let (_, handshake) = named(view.phase);
    let _ = writeln!(text, "Role: {}", view.role.word());
    let _ = writeln!(text, "Handshake: {handshake}");
    let _ = writeln!(text, "Connected Peers: {}", view.members);
    if let Some(peer) = &view.with {
        let _ = writeln!(text, "With the peer: {peer}");
    }
    if let Some(words) = &view.words {
        let _ = writeln!(text, "Words: {words}");
    }
    let _ = writeln!(text, "Relay: {}", view.relay);
    if let Some(trouble) = &view.trouble {
        let _ = writeln!(text, "Relay trouble: {trouble}");
    }
    if let Some(ms) = view.clock_difference_ms {
        let _ = writeln!(text, "Clock difference: {} s", ms.unsigned_abs() / 1000);
    }
    if view.missed > 0 {
        let _ = writeln!(text, "Messages lost at the relay: up to {}", view.missed);
    }
    if view.dropped > 0 {
        let _ = writeln!(text, "Packets dropped: {}", view.dropped);
    }
    for offer in &view.offers {
        let _ = writeln!(
            text,
            "Pending file: {} ({} bytes, SHA-256 {}), Transfer ID: {}",
            offer.name,
            offer.size,
            tell::hex(&offer.sha256),
            offer.id.as_str()
        );
    }
}

fn data(view: &View, unread: u64, note: &str) -> BondState {
    let over = matches!(view.phase, Phase::Over(_));
    BondState {
        connected: !over,
        state: named(view.phase).0.to_owned(),
        session_code: view.code.clone(),
        role: Some(match view.role {
            Role::Host => "host".to_owned(),
            Role::Guest => "guest".to_owned(),
        }),
        peers: u64::from(view.members),
        peer: view.with.clone(),
        words: view.words.clone(),
        relay: Some(view.relay.clone()),
        relay_trouble: view.trouble.clone(),
        expires_at_ms: (!over).then_some(view.expires_at.0),
        clock_difference_ms: view.clock_difference_ms.map(i64::unsigned_abs),
        missed: view.missed,
        dropped: view.dropped,
        unread,
        pending: view.offers.iter().map(offer).collect(),
        note: note.to_owned(),
        events: None,
    }
}

fn offer(offer: &crate::agent::bond::desk::OfferView) -> BondOffer {
    BondOffer {
        transfer_id: offer.id.as_str().to_owned(),
        name: offer.name.clone(),
        size: offer.size,
        file_type: offer.file_type.to_owned(),
        sha256: tell::hex(&offer.sha256),
        findings: offer.findings.clone(),
    }
}
