//! `discover`: who is there.
//!
//! Everything that an identity says about itself is untrusted and public: it is shown in one line of
//! bounded length, with whatever moves, hides or reorders text spelled out, and the list itself is
//! bounded, because anybody can announce sessions without number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::room::Room;
use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, Discovered, FailedRelay, Identity, IdentitySession};
use crate::agent::presence::said;
use crate::agent::roster::{DISCOVER_WAIT, Roster, RosterSession, Whom, fetch};
use crate::domain::machine::presence::{Presence, age_text};
use crate::domain::query::agent as query;
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;

/// Identities that are shown.
const IDENTITIES: usize = 100;
/// Sessions of one identity that are shown.
const SESSIONS: usize = 20;
/// Age in milliseconds from which a session is probably gone.
const PROBABLY_GONE_MS: u64 = 86_400_000;

/// Shows who is there; an error result when no relay says.
///
/// # Errors
///
/// [`ToolError::Failed`] when no relay gave a roster.
pub async fn discover(
    core: &Arc<Core>,
    a: args::Discover,
) -> Result<Answer<Discovered>, ToolError> {
    let mut roster = fetch(core, DISCOVER_WAIT, Whom::Everybody).await?;
    let failed: Vec<FailedRelay> = roster
        .failed
        .iter()
        .map(|f| FailedRelay {
            url: f.url.clone(),
            problem: render::attribute(&f.problem),
        })
        .collect();
    if !roster.is_usable() {
        let mut lines = vec!["Discovery unavailable: no relay gave a roster.".to_owned()];
        lines.extend(failed.iter().map(failed_line));
        return Err(ToolError::Failed(lines.join("\n")));
    }
    // What relays show of this session is older than what it says now.
    let own = |s: &RosterSession| s.key == core.me && s.session.as_ref() == Some(&core.session);
    roster.sessions.retain(|s| !own(s));
    roster.sessions.push(this_session(core));
    let peers: BTreeMap<PublicKey, String> = core
        .ledger
        .read(|s| Ok(query::peers(s)?))
        .await?
        .into_iter()
        .map(|peer| (peer.key, peer.petname))
        .collect();
    let wanted = a.peer.as_deref().map(str::trim).filter(|p| !p.is_empty());
    let mut groups = groups(core, &roster, &peers);
    if let Some(wanted) = wanted {
        groups.retain(|g| g.is(wanted));
    }
    Ok(answer(core, groups, failed, wanted.is_some()))
}

/// This session in its own words.
fn this_session(core: &Core) -> RosterSession {
    let info = said(core);
    RosterSession {
        key: core.me,
        session: Some(core.session.clone()),
        name: core.name.clone(),
        cwd: info.cwd,
        git_root: info.git_root,
        summary: info.summary,
        ts: core.clock.now(),
        presence: Presence::Live { age_ms: 0 },
    }
}

/// The sessions of one identity.
struct Group<'a> {
    key: PublicKey,
    petname: Option<&'a str>,
    name: &'a str,
    is_me: bool,
    shares_name: bool,
    sessions: Vec<&'a RosterSession>,
}

impl Group<'_> {
    fn is(&self, wanted: &str) -> bool {
        self.petname == Some(wanted)
            || self.name == wanted
            || self.key.fingerprint().as_str() == wanted
            || self.key.to_string() == wanted
            || (self.is_me && wanted.eq_ignore_ascii_case("self"))
    }
}

/// This identity first, then peers by local name, then others by the name they give themselves.
fn groups<'a>(
    core: &Core,
    roster: &'a Roster,
    peers: &'a BTreeMap<PublicKey, String>,
) -> Vec<Group<'a>> {
    let mut by_key: BTreeMap<PublicKey, Vec<&RosterSession>> = BTreeMap::new();
    for session in &roster.sessions {
        by_key.entry(session.key).or_default().push(session);
    }
    let mut names: BTreeMap<&str, BTreeSet<PublicKey>> = BTreeMap::new();
    for session in &roster.sessions {
        names.entry(&session.name).or_default().insert(session.key);
    }
    let mut groups: Vec<Group<'_>> = by_key
        .into_iter()
        .map(|(key, mut sessions)| {
            // The newest announcement says how the node is called.
            sessions.sort_by_key(|s| Reverse(s.ts));
            let name = sessions.first().map_or("", |s| s.name.as_str());
            let shares_name = names.get(name).is_some_and(|keys| keys.len() > 1);
            sessions.sort_by_key(|s| (order(s.presence), s.session.clone()));
            sessions.retain(|s| s.session.is_some());
            Group {
                key,
                petname: peers.get(&key).map(String::as_str),
                name,
                is_me: key == core.me,
                shares_name,
                sessions,
            }
        })
        .collect();
    groups.sort_by_key(|g| (!g.is_me, g.petname.is_none(), g.petname, g.name, g.key));
    groups
}

const fn order(presence: Presence) -> (u8, u64) {
    match presence {
        Presence::Live { age_ms } => (0, age_ms),
        Presence::Away { age_ms } => (1, age_ms),
        Presence::Closed | Presence::Gone | Presence::Unknown => (2, 0),
    }
}

fn answer(
    core: &Core,
    groups: Vec<Group<'_>>,
    failed_relays: Vec<FailedRelay>,
    filtered: bool,
) -> Answer<Discovered> {
    let mut left_out = groups.len().saturating_sub(IDENTITIES);
    let mut identities = vec![];
    let mut lines = vec![];
    let mut room = Room::of(core);
    room.less(&failed_relays);
    for mut group in groups.into_iter().take(IDENTITIES) {
        left_out += group.sessions.len().saturating_sub(SESSIONS);
        group.sessions.truncate(SESSIONS);
        let mut identity = identity(core, &group);
        // The sessions that were heard last come first.
        while !room.fits(&identity) && identity.sessions.pop().is_some() {
            left_out += 1;
        }
        if !room.takes(&identity) {
            left_out += 1;
            continue;
        }
        lines.push(identity_text(&identity));
        identities.push(identity);
    }
    let note = match (identities.is_empty(), filtered) {
        (true, true) => "Nobody of that name, key or fingerprint is there.",
        (true, false) => "Nobody is there.",
        _ => {
            "Names, directories and summaries are the words of those who announce them. Write to a \
             peer by its local name, or to one of its sessions by the full id."
        }
    };
    lines.push(note.to_owned());
    if left_out > 0 {
        lines.push(format!(
            "{left_out} more are not shown; ask for one by `peer`."
        ));
    }
    if !failed_relays.is_empty() {
        lines.push("Warning: incomplete, these relays gave no roster:".to_owned());
        lines.extend(failed_relays.iter().map(failed_line));
    }
    Answer {
        text: lines.join("\n"),
        data: Discovered {
            identities,
            left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
            failed_relays,
            note: note.to_owned(),
        },
    }
}

fn identity(core: &Core, group: &Group<'_>) -> Identity {
    let tags = [
        (group.is_me, "you"),
        (group.petname.is_some(), "already a peer"),
        (group.shares_name, "shared name"),
    ];
    Identity {
        key: group.key.to_string(),
        fingerprint: group.key.fingerprint().to_string(),
        name: render::label(group.name),
        petname: group.petname.map(render::label),
        tags: tags
            .iter()
            .filter(|(applies, _)| *applies)
            .map(|(_, tag)| (*tag).to_owned())
            .collect(),
        sessions: group.sessions.iter().map(|s| session(core, s)).collect(),
    }
}

fn session(core: &Core, s: &RosterSession) -> IdentitySession {
    let id = s.session.as_ref().map(|id| id.as_str());
    let age_ms = s.presence.age_ms();
    IdentitySession {
        session_id: id
            .filter(|id| render::is_plain_id(id))
            .map(ToOwned::to_owned),
        presence: s.presence.name().to_owned(),
        heard: age_ms.map(|ms| format!("{} ago", age_text(ms))),
        age_ms,
        this_session: s.key == core.me && s.session.as_ref() == Some(&core.session),
        cwd: render::attribute(&s.cwd),
        git_root: render::attribute(&s.git_root),
        summary: render::attribute(&s.summary),
    }
}

fn identity_text(i: &Identity) -> String {
    let tags = match i.tags.as_slice() {
        [] => String::new(),
        tags => format!(" [{}]", tags.join(", ")),
    };
    let petname = i
        .petname
        .as_ref()
        .map_or_else(String::new, |name| format!("{name}: "));
    let mut text = format!(
        "{petname}\"{}\" ({}){tags}\n  key {}",
        i.name, i.fingerprint, i.key
    );
    for s in &i.sessions {
        let id = s.session_id.as_deref().unwrap_or("(odd session id)");
        text.push_str(&format!("\n  - {id}"));
        if !s.cwd.is_empty() {
            text.push_str(&format!(" \u{b7} {}", s.cwd));
        }
        if !s.git_root.is_empty() {
            text.push_str(&format!(" \u{b7} git:{}", s.git_root));
        }
        if !s.summary.is_empty() {
            text.push_str(&format!(" \u{b7} \"{}\"", s.summary));
        }
        if s.this_session {
            text.push_str(" (this session)");
        } else if s.presence == "closed" {
            text.push_str(" (has said good-bye)");
        } else if s.presence != "live" {
            let gone = s.age_ms.is_some_and(|ms| ms >= PROBABLY_GONE_MS);
            let gone = if gone { ", probably gone" } else { "" };
            let heard = s.heard.as_deref().unwrap_or("long ago");
            text.push_str(&format!(" (away, heard {heard}{gone})"));
        }
    }
    text
}

fn failed_line(f: &FailedRelay) -> String {
    format!("  {}: {}", f.url, f.problem)
}
