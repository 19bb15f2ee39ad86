//! `bond pin`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::print::{Printer, Shown, Style};
use super::super::terminal::confirm_text;
use super::act::the_one;
use super::{BondError, Pin};
use crate::agent::bond::control::{PinState, Reply, Request, SessionView, ask};
use crate::types::text::visible;

/// Characters of the fingerprint that are to be typed.
const TYPED: usize = 4;

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondPinned {
    pid: u32,
    /// The key that is a peer now; absent while the other side's user decides.
    key: Option<String>,
    /// Its name here.
    petname: Option<String>,
}

pub(super) fn pin(stores: &[PathBuf], args: &Pin, p: &mut Printer) -> Result<(), AdminError> {
    let shell = args.admission.shell;
    shell.check()?;
    let server = the_one(stores, args.pid)?;
    let session = server.listed.session.ok_or(BondError::NothingRuns)?;
    let pin = session.pin.as_ref().ok_or(BondError::NotForPinning)?;
    let petname = args.petname.as_deref().map(str::trim);
    // What is typed is what was compared: the key where there is one, else what both sides see.
    let (wanted, prompt) = match (&pin.key, &session.verification) {
        (Some(key), _) => (
            key.get(..TYPED),
            format!(
                "Type the first {TYPED} characters of the fingerprint to go on, anything else to stop: "
            ),
        ),
        (None, Some(words)) => (
            words.split_whitespace().next(),
            "Type the first of the words to go on, anything else to stop: ".to_owned(),
        ),
        (None, None) => return Err(BondError::NotForPinning.into()),
    };
    let wanted = wanted.ok_or(BondError::NotForPinning)?;
    let typed = confirm_text(&question(&session, pin, petname), &prompt, shell)?;
    if !typed.starts_with(wanted) {
        return Err(AdminError::NotTyped);
    }
    let request = Request::Pin {
        routing: session.routing.clone(),
        key: pin.key.clone(),
        petname: petname.map(str::to_owned),
    };
    let pinned = match ask(&server.socket, &request).map_err(BondError::from)? {
        Reply::Pinned(pinned) => pinned,
        Reply::Failed(failed) => return Err(BondError::from(failed).into()),
        _ => return Err(BondError::OtherAnswer.into()),
    };
    let (key, petname) = (pinned.key, pinned.petname);
    if p.json {
        let pid = server.listed.pid;
        return Ok(p.json(&BondPinned { pid, key, petname })?);
    }
    let text = match (&key, &petname) {
        (Some(key), Some(name)) => {
            format!(
                "{} ({}) may write to this identity now",
                Shown(name),
                Shown(key)
            )
        }
        _ => "the other side is asked; once its user agrees, it is a peer here".to_owned(),
    };
    Ok(p.whole_line(Style::Good, &text)?)
}

/// What the operator is asked.
fn question(session: &SessionView, pin: &PinState, petname: Option<&str>) -> String {
    let name = petname
        .or(pin.name.as_deref())
        .unwrap_or("what it calls itself");
    let words = visible(session.verification.as_deref().unwrap_or("none")).into_owned();
    let mut text = format!(
        "Make a peer of the other side of a sealed session?\n\n  your name     {}\n  words         \
         {words}\n  routing       {}\n",
        visible(name),
        visible(&session.routing),
    );
    if let Some(key) = &pin.key {
        let fingerprint = key.get(..8).unwrap_or(key);
        text.push_str(&format!(
            "  calls itself  {} (not verified)\n  key           {}\n  fingerprint   {}\n",
            visible(pin.name.as_deref().unwrap_or("")),
            visible(key),
            visible(fingerprint),
        ));
    } else {
        text.push_str(
            "\nIts key is not known yet: the first one that it proves in this session is meant.\n",
        );
    }
    text.push_str(
        "\nWhoever it is can then send messages that your agents read and may act on. Compare the words \
         with the other person by another way.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_peer_chose_acts_on_the_terminal() {
        let odd = "a\u{1b}[2J\n\nkey 0000\u{202e}";
        let pin = PinState {
            state: "waiting".into(),
            key: Some(odd.into()),
            name: Some(odd.into()),
            petname: None,
        };
        let session = SessionView {
            role: "host".into(),
            mode: "own".into(),
            state: "confirmed".into(),
            routing: odd.into(),
            relay: odd.into(),
            peer: None,
            verification: Some(odd.into()),
            pin: None,
            opened_at: 0,
            expires_at: 0,
        };
        let text = question(&session, &pin, Some(odd));
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(
            !text.contains('\u{202e}') && !text.contains("\n\nkey"),
            "{text:?}"
        );
    }
}
