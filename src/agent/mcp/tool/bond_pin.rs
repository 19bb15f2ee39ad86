//! `bond_pin`: making a peer of the other side of a sealed session.

use super::bond::known;
use crate::agent::bond::desk::{PinOutcome, PinView};
use crate::agent::core::Core;
use crate::agent::mcp::approve::{self, Naming, Permission, Wish};
use crate::agent::mcp::args::bond as args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::line::Line;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::bond::BondPinned;
use crate::agent::mcp::server::HostConnection;
use crate::domain::query::agent as query;
use crate::event::agent::DecidedBy;
use crate::types::id::PublicKey;
use crate::types::text::shell_word;
use crate::wire::pair::claimed_petname;
use crate::wire::peers::Petname;

/// Pins the other side if the human agrees: an admission is durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn pin(
    core: &Core,
    host: &HostConnection,
    a: args::Pin,
) -> Result<Answer<BondPinned>, ToolError> {
    let petname = match a.petname.as_deref().map(str::trim) {
        Some(name) => Some(Petname::parse(name).map_err(|e| ToolError::Invalid(e.to_string()))?),
        None => None,
    };
    core.await_lease().await?;
    let view = known(core, "bond_pin", core.bond.pinning())?;
    if let Some(name) = &view.pinned {
        let note = format!("{} is pinned already.", render::label(name));
        return Ok(answer("pinned", &view, Some(name), note));
    }
    if view.claim.is_none() && view.asked {
        let note = "The user agreed before; the other side's user decides now. bond_wait tells.";
        return Ok(answer("asked", &view, None, note.to_owned()));
    }
    let peer = name_for(core, &view, petname.as_ref()).await?;
    let by = match &peer {
        // Nobody is asked about what was agreed to already.
        Some((_, true)) => DecidedBy::Tool,
        Some((name, false)) => consent(core, host, &view, Some(name), petname.as_ref()).await?,
        None => consent(core, host, &view, None, petname.as_ref()).await?,
    };
    let outcome = core.bond.pin(&view, petname, by).await;
    Ok(match known(core, "bond_pin", outcome)? {
        PinOutcome::Pinned(claim, name) => {
            let note = format!(
                "{} ({}) may write to this identity now, and has our card: once its user agreed too, \
                 neither side needs a code any more.",
                render::label(&name),
                claim.key
            );
            let mut view = view;
            view.claim = Some(claim);
            answer("pinned", &view, Some(&name), note)
        }
        PinOutcome::Asked => {
            let note = "The other side is asked, and sees this identity's key. Its user decides; the \
                        first key that it proves in this session becomes a peer here. bond_wait tells."
                .to_owned();
            answer("asked", &view, None, note)
        }
    })
}

/// The name that the other side gets, and whether it is a peer already; `None` before its card came.
async fn name_for(
    core: &Core,
    view: &PinView,
    petname: Option<&Petname>,
) -> Result<Option<(String, bool)>, ToolError> {
    let Some(claim) = &view.claim else {
        return Ok(None);
    };
    core.peers.ensure(&core.ledger).await?;
    let key = claim.key;
    let wanted = petname.cloned().or_else(|| claimed_petname(&claim.name));
    let text = wanted.as_ref().map(ToString::to_string);
    let (peer, holder) = core
        .ledger
        .read(move |s| {
            let holder = match &text {
                Some(name) => query::peer_by_name(s, name)?,
                None => None,
            };
            Ok((query::peer_by_key(s, &key)?, holder))
        })
        .await?;
    match (peer, holder, wanted) {
        (Some(peer), _, _) => Ok(Some((peer.petname, true))),
        (None, Some(holder), _) => Err(ToolError::Invalid(format!(
            "{} is the name of {}; choose another `petname`",
            render::label(&holder.petname),
            holder.key
        ))),
        (None, None, None) => Err(ToolError::Invalid(
            "what the other side calls itself cannot be a name here; choose a `petname`".to_owned(),
        )),
        (None, None, Some(name)) => Ok(Some((name.to_string(), false))),
    }
}

/// Asks the human: about a key, or about whoever holds the other end.
async fn consent(
    core: &Core,
    host: &HostConnection,
    view: &PinView,
    name: Option<&str>,
    petname: Option<&Petname>,
) -> Result<DecidedBy, ToolError> {
    let wish = match (&view.claim, name) {
        (Some(claim), Some(name)) => Wish::Admit {
            key: claim.key,
            petname: name,
            claimed: Some(&claim.name),
        },
        _ => Wish::Pin {
            routing: &view.routing,
            words: view.words.as_deref(),
            petname: petname.map(Petname::as_str),
        },
    };
    match approve::permission(core, host, &wish).await {
        Permission::Human => Ok(DecidedBy::Form),
        Permission::Tool => Ok(DecidedBy::Tool),
        Permission::Declined => {
            core.bond.pin_declined(view, DecidedBy::Form);
            let note = "The user said no. Nothing has changed; the other side is not told.";
            Err(refused("declined", view, note.to_owned(), None))
        }
        Permission::Unanswered(why) => {
            let flags = petname.map_or_else(String::new, |name| {
                format!(" --petname={}", shell_word(name.as_str()))
            });
            let line = Line::of("bond pin").flags(&flags);
            let refusal =
                approve::unanswered(core.config.operator.as_ref(), why, &line, Naming::Store);
            Err(refused("waiting", view, refusal.note, refusal.command))
        }
    }
}

fn data(state: &str, view: &PinView, note: String) -> BondPinned {
    let key = view.claim.as_ref().map(|claim| claim.key);
    BondPinned {
        state: state.to_owned(),
        key: key.as_ref().map(PublicKey::to_string),
        fingerprint: key.map(|key| key.fingerprint().to_string()),
        claimed_name: view.claim.as_ref().map(|claim| claim.name.clone()),
        petname: None,
        note,
        command: None,
        events: None,
    }
}

fn answer(state: &str, view: &PinView, petname: Option<&str>, note: String) -> Answer<BondPinned> {
    let head = match state {
        "pinned" => "Peer Pinned",
        _ => "Pin Requested",
    };
    Answer {
        text: format!("{head}\n{note}"),
        data: BondPinned {
            petname: petname.map(render::label),
            ..data(state, view, note)
        },
    }
}

fn refused(state: &str, view: &PinView, note: String, command: Option<String>) -> ToolError {
    let data = BondPinned {
        command,
        ..data(state, view, note.clone())
    };
    ToolError::refused(note, &data)
}
