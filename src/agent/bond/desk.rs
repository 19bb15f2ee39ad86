//! The session of this process, and everything that can be asked of it.
//!
//! One mutex holds the machine and what belongs to it; it is never held across an await. Whatever
//! comes from outside names the session that it is meant for, so an answer that arrives after its
//! session was replaced reaches nobody.
//!
//! `error`: what can go wrong. `deals`: words and files. `pin`: two sides that pin each other.
//! `errand`: files between peers. `steps`: what the machine asks for. `view`: what is
//! told of it all.

mod deals;
mod errand;
mod error;
mod pin;
mod steps;
#[cfg(test)]
mod tests;
mod view;

pub use errand::Whom;
pub use error::DeskError;
pub use pin::{Claim, PinOutcome, PinView};
pub use view::{AcceptedFile, Look, OfferView, SentFile, View};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
#[cfg(unix)]
use tokio::task::JoinHandle;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::config::BondConfig;
#[cfg(unix)]
use super::control::Control;
use super::desktop::Desktop;
use super::driver::{self, Post};
use super::files::{Held, Incoming};
use super::moves::Moves;
use super::news::{Event, Queue};
#[cfg(unix)]
use super::operator::Operator;
use super::relay::{BondRelay, RelayFailure};
use super::scribe::Scribe;
use super::tell;
use crate::agent::core::Core;
use crate::agent::random::OsEntropy;
use crate::domain::bond::names::{legacy_rule, own_rule};
use crate::domain::bond::preview::Offered;
use crate::domain::machine::bond::{
    Action, Input, Machine, Offer, OfferId, OwnSession, Pinned, Policy, Role, Session, Ticket,
};
use crate::event::agent::{BondMode, DecidedBy};
use crate::system::SystemClock;
use crate::types::id::SessionId;
use crate::types::secret::Secret;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::bond::code::{RoutingId, SessionCode};
use crate::wire::bond::own_code::{AnyCode, OwnCode};

/// How long the next session waits for a file of the last one that is being written.
const SETTLE: Duration = Duration::from_secs(10);

/// How long a tool waits for a relay that takes its time. The requests have their own limits.
const PATIENCE: Duration = Duration::from_secs(120);

/// What belongs to one session.
pub(super) struct Live {
    pub(super) id: u64,
    pub(super) session: Box<dyn Machine>,
    pub(super) mode: BondMode,
    pub(super) relay: BondRelay,
    /// Counts how often its connections were made anew.
    renewed: watch::Sender<u64>,
    /// What the machine wants to ask, from which position.
    pub(super) poll: Option<u64>,
    pub(super) wake: Arc<Notify>,
    pub(super) trouble: Option<String>,
    code: Option<Secret<String>>,
    words: Option<String>,
    clock_difference_ms: Option<i64>,
    missed: u64,
    dropped: u64,
    opening: Option<oneshot::Sender<Result<(), String>>>,
    posted: BTreeMap<Ticket, oneshot::Sender<Result<(), RelayFailure>>>,
    posts: mpsc::UnboundedSender<Post>,
    /// What is posted with the goodbye.
    last: Vec<Post>,
    deciding: BTreeSet<OfferId>,
    peer: Option<String>,
    conversation: SessionId,
    opened_at: UnixMillis,
    /// What is known of the files that wait, and since when they do.
    offered: BTreeMap<OfferId, (Offered, UnixMillis)>,
    /// Of the file that is on its way.
    sending: Option<[u8; 32]>,
    /// Files of ours that may still be read, in our own mode.
    pub(super) held: BTreeMap<OfferId, Arc<Held>>,
    /// How far files are, in our own mode.
    moves: Moves,
    /// Names of our files of which the other side has not all, in our own mode.
    outgoing: BTreeMap<OfferId, String>,
    /// Accepted files that are on their way, in our own mode.
    coming: BTreeMap<OfferId, Coming>,
    /// What writes those.
    arrivals: Option<Arrivals>,
    pins: pin::Pins,
    /// The peer whose session this is, and what for, where no code opened it.
    errand: Option<errand::Errand>,
    tasks: JoinSet<()>,
}

/// A machine, what it asks for first, how it is sealed, and what to show of its code.
type Opened = (
    Box<dyn Machine>,
    Vec<Action>,
    BondMode,
    Option<Secret<String>>,
);

/// What opens a session.
enum Opening {
    /// A code that one told the other.
    Code(AnyCode),
    /// Two identities that know each other.
    Peer {
        routing: RoutingId,
        pinned: Pinned,
        /// The peer's name here, spelled out.
        name: String,
    },
}

impl Live {
    /// What is to be asked of the relay next; nothing while the disk has so much to do that no more
    /// should come.
    pub(super) fn take_poll(&mut self) -> Option<u64> {
        let behind = self.arrivals.as_ref().is_some_and(Arrivals::is_full);
        if behind { None } else { self.poll.take() }
    }
}

/// An accepted file that is on its way.
struct Coming {
    offer: OfferView,
    name: String,
    note: String,
    by: DecidedBy,
    /// Whoever waits for it.
    waits: Option<oneshot::Sender<Result<AcceptedFile, DeskError>>>,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    last_id: u64,
    news: Queue,
    /// Sessions that peers invited to, the latest last.
    invited: VecDeque<RoutingId>,
    /// Whether the operator ends the session, while it is being ended.
    operator_ends: bool,
}

/// At most one sealed session.
pub struct Desk {
    pub(super) config: BondConfig,
    scribe: Scribe,
    desktop: Desktop,
    state: Mutex<State>,
    /// Who opens or joins.
    entering: tokio::sync::Mutex<()>,
    rang: watch::Sender<u64>,
    /// Rings when a file moved.
    moved: watch::Sender<u64>,
    leaving: Mutex<JoinSet<()>>,
    /// The conversation that used the session last: it has the right to write to the log.
    home: Mutex<Weak<Core>>,
    /// What answers the operator's terminal.
    #[cfg(unix)]
    control: Mutex<Option<JoinHandle<()>>>,
    clock: SystemClock,
    entropy: OsEntropy,
}

impl Desk {
    /// Nobody is there yet. What a killed process left of files is removed in the background.
    #[must_use]
    pub fn new(config: BondConfig, scribe: Scribe) -> Desk {
        let incoming = config.incoming.clone();
        tokio::task::spawn_blocking(move || Incoming::tidy(&incoming));
        Desk {
            config,
            scribe,
            desktop: Desktop::here(),
            state: Mutex::default(),
            entering: tokio::sync::Mutex::default(),
            rang: watch::Sender::new(0),
            moved: watch::Sender::new(0),
            leaving: Mutex::default(),
            home: Mutex::default(),
            #[cfg(unix)]
            control: Mutex::default(),
            clock: SystemClock,
            entropy: OsEntropy,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.rang
            .send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Opens a session as its host; `spoken` is what was asked for, if something was.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; there is no session then.
    pub async fn connect(
        self: &Arc<Self>,
        spoken: Option<bool>,
        conversation: &SessionId,
    ) -> Result<View, DeskError> {
        let mode = match spoken {
            Some(true) => BondMode::Own,
            Some(false) => BondMode::Legacy,
            None => self.config.mode,
        };
        let code = match mode {
            BondMode::Own => AnyCode::Own(OwnCode::generate(&self.entropy)?),
            BondMode::Legacy => AnyCode::Legacy(SessionCode::generate(&self.entropy)?),
        };
        self.enter(Role::Host, Opening::Code(code), conversation.clone())
            .await
    }

    /// Joins the session of a code.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; there is no session then.
    pub async fn join(
        self: &Arc<Self>,
        code: &str,
        conversation: &SessionId,
    ) -> Result<View, DeskError> {
        let code = code.parse::<AnyCode>()?;
        self.enter(Role::Guest, Opening::Code(code), conversation.clone())
            .await
    }

    async fn enter(
        self: &Arc<Self>,
        role: Role,
        opening: Opening,
        conversation: SessionId,
    ) -> Result<View, DeskError> {
        let _only_one = self.entering.lock().await;
        if self.is_open() {
            return Err(DeskError::Open);
        }
        self.settled().await;
        #[cfg(unix)]
        self.answer_operator();
        let relay = BondRelay::new(
            self.config.relay.as_ref().map_err(Clone::clone)?,
            &self.config.authorities,
        )?;
        let errand = match &opening {
            Opening::Code(_) => None,
            Opening::Peer { pinned, name, .. } => {
                Some(errand::Errand::new(role, pinned.peer, name))
            }
        };
        let policy = match &opening {
            Opening::Code(AnyCode::Legacy(_)) => Policy {
                max_file_bytes: u64::from(self.config.max_file_kb).saturating_mul(1024),
                name_rule: legacy_rule,
            },
            Opening::Code(AnyCode::Own(_)) | Opening::Peer { .. } => Policy {
                max_file_bytes: self.config.max_spoken_bytes(),
                name_rule: own_rule,
            },
        };
        let now = self.clock.now();
        let (session, actions, mode, revealed) = self.machine(role, opening, policy, now).await?;
        let (opening, opened) = oneshot::channel();
        let (posts, to_post) = mpsc::unbounded_channel();
        {
            let mut state = self.lock();
            self.clear(&mut state, false);
            state.last_id = state.last_id.wrapping_add(1);
            let id = state.last_id;
            let mut live = Live {
                id,
                session,
                relay,
                renewed: watch::Sender::new(0),
                poll: None,
                wake: Arc::default(),
                trouble: None,
                mode,
                code: revealed,
                words: None,
                clock_difference_ms: None,
                missed: 0,
                dropped: 0,
                opening: Some(opening),
                posted: BTreeMap::new(),
                posts,
                last: vec![],
                deciding: BTreeSet::new(),
                peer: None,
                conversation,
                opened_at: now,
                offered: BTreeMap::new(),
                sending: None,
                held: BTreeMap::new(),
                moves: Moves::default(),
                outgoing: BTreeMap::new(),
                coming: BTreeMap::new(),
                arrivals: None,
                pins: pin::Pins::default(),
                errand,
                tasks: JoinSet::new(),
            };
            let (wake, renewed) = (Arc::clone(&live.wake), || live.renewed.subscribe());
            let polls = driver::polls(Arc::clone(self), id, wake, renewed());
            let posts = driver::posts(Arc::clone(self), id, to_post, renewed());
            live.tasks.spawn(polls);
            live.tasks.spawn(posts);
            state.live = Some(live);
            self.carry_out(&mut state, actions);
        }
        match tokio::time::timeout(PATIENCE, opened).await {
            Ok(Ok(Ok(()))) => self.view().ok_or(DeskError::NotConnected),
            Ok(Ok(Err(reason))) => {
                // Nothing is left of what never was.
                self.end(false);
                Err(DeskError::NotOpened(reason))
            }
            Ok(Err(_)) => Err(DeskError::NotOpened("it was ended meanwhile".to_owned())),
            Err(_) => {
                self.end(false);
                Err(DeskError::NotOpened(
                    "the relay did not answer in time".to_owned(),
                ))
            }
        }
    }

    /// What an ended session has on its way to the disk is on record under that session: the next one
    /// waits for it, not for ever.
    async fn settled(&self) {
        let mut rang = self.rang.subscribe();
        let written = async {
            loop {
                rang.mark_unchanged();
                let busy = |live: &Live| !live.coming.is_empty();
                // The sender lives as long as this.
                if !self.lock().live.as_ref().is_some_and(busy) || rang.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(SETTLE, written).await;
    }

    /// The machine that a code asks for, and what to show of the code.
    async fn machine(
        &self,
        role: Role,
        opening: Opening,
        policy: Policy,
        now: UnixMillis,
    ) -> Result<Opened, DeskError> {
        match opening {
            Opening::Code(AnyCode::Legacy(code)) => {
                let copy = code.duplicate();
                let derived = tokio::task::spawn_blocking(move || copy.derive())
                    .await
                    .map_err(|_| DeskError::Thread)?;
                let (session, asks) = Session::open(role, derived, policy, now, &self.entropy)?;
                let revealed = Secret::new(code.reveal().to_owned());
                Ok((Box::new(session), asks, BondMode::Legacy, Some(revealed)))
            }
            Opening::Code(AnyCode::Own(code)) => {
                let (session, asks) = OwnSession::open(role, &code, policy, now, &self.entropy)?;
                Ok((Box::new(session), asks, BondMode::Own, Some(code.reveal())))
            }
            Opening::Peer {
                routing, pinned, ..
            } => {
                let entropy = &self.entropy;
                let (session, asks) =
                    OwnSession::open_pinned(role, routing, pinned, policy, now, entropy)?;
                Ok((Box::new(session), asks, BondMode::Own, None))
            }
        }
    }

    /// The folder of accepted files.
    #[must_use]
    pub fn incoming(&self) -> &std::path::Path {
        &self.config.incoming
    }

    /// Whether there is a session that is not over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let state = self.lock();
        state
            .live
            .as_ref()
            .is_some_and(|live| !live.session.is_over())
    }

    /// How the session stands; `None` without one.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        let state = self.lock();
        let live = state.live.as_ref()?;
        let session = &live.session;
        Some(View {
            phase: session.phase(),
            role: session.role(),
            with: live.errand.as_ref().map(|errand| errand.name.clone()),
            code: live.code.as_ref().map(|code| code.expose().clone()),
            mode: live.mode,
            members: session.members(),
            words: live.words.clone(),
            relay: live.relay.url().to_string(),
            trouble: live.trouble.clone(),
            expires_at: session.expires_at(),
            clock_difference_ms: live.clock_difference_ms,
            missed: live.missed,
            dropped: live.dropped,
            offers: offers(live),
            conversation: live.conversation.clone(),
            routing: session.routing().prefix(),
            peer: session.peer().map(|peer| peer.prefix()),
            opened_at: live.opened_at,
        })
    }

    /// Ends the session; says whether there was one. The relay is told in the background.
    pub fn end(self: &Arc<Self>, operator: bool) -> bool {
        let mut state = self.lock();
        let there = state.live.is_some();
        self.clear(&mut state, operator);
        if there && operator {
            state.news.push(tell::ended(self.clock.now()));
        }
        drop(state);
        self.ring();
        there
    }

    fn clear(self: &Arc<Self>, state: &mut State, operator: bool) {
        state.operator_ends = operator;
        if let Some(live) = state.live.as_mut() {
            // Ending never fails.
            if let Ok(actions) = live
                .session
                .step(self.clock.now(), Input::End, &self.entropy)
            {
                self.carry_out(state, actions);
            }
            state.live = None;
        }
    }

    /// Lets the operator's terminal in, from the first session of the process on.
    #[cfg(unix)]
    fn answer_operator(self: &Arc<Self>) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        if control.is_some() || !self.config.reachable {
            return;
        }
        match Control::open(&self.config.state.join("run")) {
            Ok(socket) => {
                let operator = Arc::new(Operator(Arc::clone(self)));
                *control = Some(tokio::spawn(async move { socket.serve(operator).await }));
            }
            Err(e) => tracing::warn!("the operator's terminal cannot reach this session: {e}"),
        }
    }

    #[cfg(unix)]
    async fn leave_operator(&self) {
        let control = {
            let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            control.take()
        };
        if let Some(control) = control {
            control.abort();
            let _ = control.await;
        }
    }

    /// Ends the session with the process: it is on record when this returns.
    pub async fn quit(self: &Arc<Self>) {
        // First that the process ends, or the end would be on record as somebody's wish.
        tokio::join!(self.scribe.close(), async { self.end(false) });
        #[cfg(unix)]
        self.leave_operator().await;
    }

    /// The machine slept, or the process stood still: the session's connections are given up and the
    /// relay is asked anew, at once.
    pub fn woke(&self) {
        let mut state = self.lock();
        let Some(live) = state.live.as_mut().filter(|live| !live.session.is_over()) else {
            return;
        };
        match BondRelay::new(live.relay.url(), &self.config.authorities) {
            Ok(relay) => {
                live.relay = relay;
                live.renewed.send_modify(|n| *n = n.wrapping_add(1));
            }
            Err(e) => tracing::warn!("the old connections are kept: {e}"),
        }
    }

    /// How far files of the session are.
    #[must_use]
    pub fn moves(&self) -> Moves {
        let state = self.lock();
        state
            .live
            .as_ref()
            .map(|live| live.moves.clone())
            .unwrap_or_default()
    }

    /// Rings when that changed.
    #[must_use]
    pub fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Waits until the relay knows of the end.
    pub async fn farewell(&self) {
        let mut leaving = {
            let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *leaving)
        };
        while leaving.join_next().await.is_some() {}
    }

    /// What happened and nobody was told yet, as much as fits into an answer.
    #[must_use]
    pub fn take_news(&self) -> Vec<Event> {
        let now = self.clock.now();
        self.lock().news.take(now)
    }

    /// How many events wait.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.lock().news.len()
    }

    /// Resolves when events wait or the session is over: true for events.
    pub async fn something(&self) -> bool {
        let mut rang = self.rang.subscribe();
        loop {
            rang.mark_unchanged();
            if self.unread() > 0 {
                return true;
            }
            if !self.is_open() {
                return false;
            }
            // The sender lives as long as this.
            if rang.changed().await.is_err() {
                return false;
            }
        }
    }
}

fn offers(live: &Live) -> Vec<OfferView> {
    let offers = live.session.offers();
    offers
        .iter()
        .filter_map(|offer| view_of(live, offer))
        .collect()
}

fn view_of(live: &Live, offer: &Offer) -> Option<OfferView> {
    let (known, at) = live.offered.get(&offer.id)?;
    Some(OfferView {
        id: offer.id.clone(),
        from: offer.from.clone(),
        name: known.name.as_str().to_owned(),
        size: offer.size,
        file_type: known.kind,
        sha256: offer.sha256,
        findings: known.findings(),
        at: *at,
    })
}
