//! Files between peers: a session of our own mode that is keyed by the two identities, opened for a file
//! and over with it.
//!
//! Where to meet is said over the bus, in a signed message ([`crate::wire::bond::file_mail`]). Nothing
//! in it is believed beyond who wrote it: whoever is invited goes to its own relay or nowhere, and who
//! else turns up in the session cannot prove that it is the peer. The file itself is offered there, and
//! taken by its human, as in any session.

use std::sync::Arc;
use std::time::Duration;

use super::{Desk, DeskError, Live, Opening, SentFile, State};
use crate::agent::bond::file;
use crate::agent::bond::tell;
use crate::agent::core::Core;
use crate::agent::ledger::Ledger;
use crate::domain::machine::bond::{Happening, OwnHappening, Phase, Pinned, Role};
use crate::domain::query::agent as query;
use crate::types::id::{MsgId, PublicKey};
use crate::types::route::Route;
use crate::types::time::Clock as _;
use crate::wire::bond::code::RoutingId;
use crate::wire::bond::file_mail::{FileMail, NotComing};
use crate::wire::envelope::{Draft, Message, MessageKind};
use crate::wire::pair::claimed_name;

/// How long the peer's program may take to come.
const TO_COME: Duration = Duration::from_secs(60);
/// How long the peer's human may take to decide.
const TO_DECIDE: Duration = Duration::from_secs(30 * 60);
/// How old an invitation may be, and how far ahead its clock, in milliseconds. Whoever sent an older
/// one does not wait any more.
const FRESH_MS: u64 = 10 * 60 * 1000;
/// Invitations that are remembered: two relays deliver one twice.
const REMEMBERED: usize = 64;

/// What a session between peers is for.
pub(super) struct Errand {
    /// The peer.
    pub(super) key: PublicKey,
    /// Its name here.
    pub(super) name: String,
    /// Whether we opened it, for a file of ours.
    ours: bool,
    /// Whether its human took a file.
    taken: bool,
    /// Why its program does not come.
    refused: Option<NotComing>,
    /// Nothing is left to do in it.
    done: bool,
}

impl Errand {
    pub(super) fn new(role: Role, key: PublicKey, name: &str) -> Errand {
        Errand {
            key,
            name: name.to_owned(),
            ours: role == Role::Host,
            taken: false,
            refused: None,
            done: false,
        }
    }
}

/// Somebody to hand a file to.
#[derive(Clone, Debug)]
pub struct Whom {
    /// Its session.
    pub to: Route,
    /// Its name here.
    pub petname: String,
}

impl Desk {
    /// Opens a session with a peer and offers a file in it. Returns once it is offered: its human
    /// decides, and the session ends by itself when the file is there or refused.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; there is no session then.
    pub async fn hand_over(
        self: &Arc<Self>,
        core: &Arc<Core>,
        whom: &Whom,
        path: String,
        note: String,
    ) -> Result<SentFile, DeskError> {
        // Nobody is called for a file that cannot be sent.
        let (config, wanted) = (self.config.clone(), path.clone());
        tokio::task::spawn_blocking(move || file::hold(&config, &wanted).map(drop))
            .await
            .map_err(|_| DeskError::Thread)??;
        let mut bytes = [0; 32];
        crate::types::entropy::Entropy::fill(&self.entropy, &mut bytes)?;
        let routing = RoutingId::from_bytes(bytes);
        let opening = self.opening(core, whom.to.key, &whom.petname, routing);
        self.enter(Role::Host, opening, core.session.clone())
            .await?;
        let Some(id) = self.lock().live.as_ref().map(|live| live.id) else {
            return Err(DeskError::NotConnected);
        };
        let sent = self.meet(core, whom, routing, id).await;
        let sent = match sent {
            Ok(()) => self.send_own(id, path, note).await,
            Err(e) => Err(e),
        };
        match sent {
            Ok(sent) => {
                self.give_up_later(id);
                Ok(sent)
            }
            Err(e) => {
                self.end_of(id);
                Err(e)
            }
        }
    }

    fn opening(
        &self,
        core: &Arc<Core>,
        peer: PublicKey,
        petname: &str,
        routing: RoutingId,
    ) -> Opening {
        Opening::Peer {
            routing,
            pinned: Pinned {
                identity: Arc::clone(&core.identity),
                peer,
            },
            name: claimed_name(petname),
        }
    }

    /// Invites the peer, and waits until it proved itself.
    async fn meet(
        self: &Arc<Self>,
        core: &Arc<Core>,
        whom: &Whom,
        routing: RoutingId,
        id: u64,
    ) -> Result<(), DeskError> {
        let relay = match &self.config.relay {
            Ok(relay) => relay.to_string(),
            Err(e) => return Err(e.clone().into()),
        };
        if !post(core, whom.to.clone(), &FileMail::Open { routing, relay }).await {
            return Err(DeskError::NotReached(whom.petname.clone()));
        }
        let mut rang = self.rang.subscribe();
        let came = async {
            loop {
                rang.mark_unchanged();
                let stands = self.with(id, |live| {
                    let refused = live.errand.as_ref().and_then(|errand| errand.refused);
                    (live.session.phase(), refused)
                });
                match stands {
                    Some((Phase::Confirmed, _)) => return Ok(()),
                    Some((_, Some(why))) => return Err(why.into()),
                    None => return Err(DeskError::NotConnected),
                    Some((Phase::Over(ending), None)) => {
                        return Err(DeskError::NotOpened(tell::why_over(ending).to_owned()));
                    }
                    Some(_) => {}
                }
                // The sender lives as long as this.
                if rang.changed().await.is_err() {
                    return Err(DeskError::NotConnected);
                }
            }
        };
        tokio::time::timeout(TO_COME, came)
            .await
            .unwrap_or_else(|_| Err(DeskError::NotComing(whom.petname.clone())))
    }

    /// A peer's message that is for this and for nobody's eyes. `message` is verified, and `petname` is
    /// an admitted peer's.
    pub fn file_mail(
        self: &Arc<Self>,
        core: &Arc<Core>,
        message: &Message,
        petname: &str,
        mail: FileMail,
    ) {
        let now = core.clock.now();
        if now.since(message.ts).max(message.ts.since(now)) > FRESH_MS {
            tracing::debug!("an old word about a file session is dropped");
            return;
        }
        match mail {
            FileMail::No { routing, why } => self.not_coming(&message.from, routing, why),
            FileMail::Open { routing, relay } => {
                if !self.is_new(routing) {
                    return;
                }
                let (desk, core) = (Arc::clone(self), Arc::clone(core));
                let (peer, petname) = (message.from, petname.to_owned());
                // Only to a session of the very key that signed.
                let answer = message.reply_route().filter(|to| to.key == peer);
                tokio::spawn(async move {
                    let came = desk.come(&core, peer, &petname, routing, &relay).await;
                    if let (Err(why), Some(to)) = (came, answer) {
                        tracing::info!("a peer's invitation is declined: {}", why.word());
                        post(&core, to, &FileMail::No { routing, why }).await;
                    }
                });
            }
        }
    }

    /// Follows an invitation.
    async fn come(
        self: &Arc<Self>,
        core: &Arc<Core>,
        peer: PublicKey,
        petname: &str,
        routing: RoutingId,
        relay: &str,
    ) -> Result<(), NotComing> {
        // Nothing that a peer says makes this program call anybody.
        let own = self.config.relay.as_ref().map(ToString::to_string);
        if own.ok().as_deref() != Some(relay) {
            return Err(NotComing::Relay);
        }
        // Nor does it take away what waits for the user, or is being written.
        let waits = |live: &Live| !live.coming.is_empty() || !live.session.offers().is_empty();
        if self.lock().live.as_ref().is_some_and(waits) {
            return Err(NotComing::Busy);
        }
        self.attach(core);
        let opening = self.opening(core, peer, petname, routing);
        match self.enter(Role::Guest, opening, core.session.clone()).await {
            Ok(_) => {
                let event = tell::visited(self.clock.now(), &claimed_name(petname));
                self.lock().news.push(event);
                self.ring();
                Ok(())
            }
            Err(DeskError::Open) => Err(NotComing::Busy),
            Err(e) => {
                tracing::warn!("a peer's invitation to a file session: {e}");
                Err(NotComing::Failed)
            }
        }
    }

    fn is_new(&self, routing: RoutingId) -> bool {
        let mut state = self.lock();
        if state.invited.contains(&routing) {
            return false;
        }
        if state.invited.len() >= REMEMBERED {
            state.invited.pop_front();
        }
        state.invited.push_back(routing);
        true
    }

    /// The invited program says no. Only the peer of that very session can.
    fn not_coming(&self, from: &PublicKey, routing: RoutingId, why: NotComing) {
        let mut state = self.lock();
        let errand = state
            .live
            .as_mut()
            .filter(|live| live.session.routing() == routing)
            .and_then(|live| live.errand.as_mut())
            .filter(|errand| errand.ours && errand.key == *from);
        if let Some(errand) = errand {
            errand.refused = Some(why);
            drop(state);
            self.ring();
        }
    }

    /// Ends a session if it is still that one.
    fn end_of(self: &Arc<Self>, id: u64) {
        let mut state = self.lock();
        if state.live.as_ref().is_some_and(|live| live.id == id) {
            self.clear(&mut state, false);
        }
        drop(state);
        self.ring();
    }

    /// Ends a session with a peer that is none any more. What waits in it goes.
    pub async fn part_from_strangers(self: &Arc<Self>, ledger: &Ledger) {
        let with = |live: &Live| Some((live.id, live.errand.as_ref()?.key));
        let Some((id, key)) = self.lock().live.as_ref().and_then(with) else {
            return;
        };
        let known = ledger.read(move |s| Ok(query::peer_by_key(s, &key)?)).await;
        if matches!(known, Ok(None)) {
            let event = tell::parted(self.clock.now());
            self.lock().news.push(event);
            self.end_of(id);
        }
    }

    /// A file that nobody decides about does not keep the session for ever.
    fn give_up_later(self: &Arc<Self>, id: u64) {
        let desk = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(TO_DECIDE).await;
            let Some(desk) = desk.upgrade() else { return };
            let waits = desk.with(id, |live| {
                live.errand.as_ref().is_some_and(|errand| !errand.taken)
            });
            if waits == Some(true) {
                let event = tell::undecided(desk.clock.now());
                desk.lock().news.push(event);
                desk.end_of(id);
            }
        });
    }

    /// Ends a session whose file is delivered or refused.
    pub(super) fn end_errand(self: &Arc<Self>, state: &mut State) {
        let done = state.live.as_mut().and_then(|live| {
            let errand = live.errand.as_mut()?;
            std::mem::take(&mut errand.done).then_some(live.id)
        });
        if let Some(id) = done {
            // Not inside the step that brought it about.
            let desk = Arc::clone(self);
            tokio::spawn(async move { desk.end_of(id) });
        }
    }
}

/// What a happening means for the errand.
pub(super) fn learn(live: &mut Live, happening: &Happening) {
    let left = !live.outgoing.is_empty();
    let Some(errand) = live.errand.as_mut().filter(|errand| errand.ours) else {
        return;
    };
    match happening {
        Happening::Own(OwnHappening::FileAnswered { taken: true, .. }) => errand.taken = true,
        Happening::Own(
            OwnHappening::FileAnswered { taken: false, .. }
            | OwnHappening::FileDelivered { .. }
            | OwnHappening::FileFailed { .. },
        ) => errand.done = !left,
        _ => {}
    }
}

/// Sends a word to a session of a peer, now or never. Says whether a relay has it.
async fn post(core: &Arc<Core>, to: Route, mail: &FileMail) -> bool {
    let Ok(msg_id) = MsgId::new_random(&core.entropy) else {
        return false;
    };
    let draft = Draft {
        to: to.key,
        text: mail.to_string(),
        ts: core.clock.now(),
        msg_id,
        kind: MessageKind::Message,
        task_id: None,
        status: None,
        in_reply_to: None,
        reply_to: Some(core.route()),
    };
    let message = Arc::new(Message::sign(&core.identity, draft));
    let mut calls = tokio::task::JoinSet::new();
    for relay in &core.relays {
        let (relay, to, message) = (Arc::clone(relay), to.clone(), Arc::clone(&message));
        calls.spawn(async move { relay.client.send(&to, &message).await });
    }
    let mut taken = false;
    while let Some(done) = calls.join_next().await {
        taken |= matches!(done, Ok(Ok(crate::agent::client::Sent::Accepted { .. })));
    }
    taken
}
