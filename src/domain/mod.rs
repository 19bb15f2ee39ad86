//! Floor 3: what is decided and what follows from it. Pure: no IO, no clock, no randomness, so that
//! a replay of the log gives the same tables on every machine and at every time.
//!
//! - [`tables`]: the rows, behind a trait that knows nothing of the engine below.
//! - [`projection`]: records -> rows.
//! - [`decide`]: command + rows -> events and a reply, or a refusal.
//! - [`machine`]: schedules, as pure functions of a state and a time.
//! - [`query`]: rows -> what a caller wants to know.
//! - [`gate`]: the trust gate that every arriving message passes.
//! - [`audit`]: the lines of `audit.log` that follow from events, and their chain.
//! - [`rehearsal`]: what commands would lead to, without a store.
//! - `bond`: names, bytes and texts of sealed sessions.

pub mod audit;
#[cfg(feature = "sealed")]
pub mod bond;
pub mod decide;
pub mod gate;
pub mod machine;
pub mod projection;
pub mod query;
pub mod rehearsal;
pub mod tables;

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use crate::event::kind::StoreKind;
use crate::event::{Recorded, StoredEvent};
use crate::types::seq::Seq;
use projection::Projection;
use tables::{TableError, TableReader};

/// A fact about to be appended, with the message body that belongs to it, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent<E> {
    /// The fact.
    pub event: E,
    /// The body, stored beside the log at the record's own position.
    pub body: Option<Arc<[u8]>>,
}

impl<E> From<E> for NewEvent<E> {
    fn from(event: E) -> Self {
        NewEvent { event, body: None }
    }
}

/// What a command leads to.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a decision has no effect until its events are appended"]
pub struct Decision<E, R> {
    /// Facts to append, in order. Empty: nothing changes, and nothing needs to be made durable.
    pub events: Vec<NewEvent<E>>,
    /// Answer to the caller, given once the events are durable.
    pub reply: R,
}

/// What a decision may look at. It sees the effects of every earlier command of its batch.
pub struct View<'a, D: Domain> {
    /// The rows.
    pub tables: &'a dyn TableReader,
    /// The in-memory view over the rows.
    pub index: &'a D::Index,
    /// The position that the first event of the decision will get.
    pub next: Seq,
}

/// A body that some row still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBody {
    /// Position of the body.
    pub seq: Seq,
    /// Length in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

/// Reading bodies.
pub trait Bodies {
    /// The body at a position, if it is there.
    ///
    /// # Errors
    ///
    /// [`TableError::Backend`] when the engine fails.
    fn body(&self, seq: Seq) -> Result<Option<Vec<u8>>, TableError>;
}

/// What a store is for. One engine serves every domain.
///
/// Implementations MUST be pure: [`decide`](Domain::decide) and the projections depend on their
/// arguments only. After a decision's events were applied, replaying them from the log MUST give
/// the same rows.
pub trait Domain: Send + Sync + Sized + 'static {
    /// Facts.
    type Event: StoredEvent;
    /// Wishes. A command carries `now` where its decision needs a time.
    type Command: Send + 'static;
    /// Answers.
    type Reply: Send + 'static;
    /// Why a wish was not granted. A refused command appends nothing.
    type Refusal: Error + Send + Sync + 'static;
    /// A view over the rows that is cheaper in memory than as a table (`()` where a store is shared
    /// between processes). Derived from rows only, rebuilt at open.
    type Index: Send + 'static;

    /// Which store this is.
    const KIND: StoreKind;

    /// The projections, in the order in which they see a record.
    fn projections() -> &'static [&'static dyn Projection<Self::Event>];

    /// Decides a command.
    ///
    /// # Errors
    ///
    /// The outer error is the storage's, the inner one the refusal.
    #[expect(clippy::type_complexity, reason = "two kinds of failure, both named")]
    fn decide(
        view: &View<'_, Self>,
        command: &Self::Command,
    ) -> Result<Result<Decision<Self::Event, Self::Reply>, Self::Refusal>, TableError>;

    /// Bytes of bodies that a command carries; the writer bounds its batches by it.
    fn weight(command: &Self::Command) -> usize;

    /// Builds the index from the rows.
    ///
    /// # Errors
    ///
    /// When rows cannot be read or decoded.
    fn build_index(tables: &dyn TableReader) -> Result<Self::Index, TableError>;

    /// Follows one record in the index.
    fn index(index: &mut Self::Index, record: &Recorded<Self::Event>);

    /// Reads the bodies that the index needs, once it was built at open.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn index_bodies(_index: &mut Self::Index, _bodies: &dyn Bodies) -> Result<(), TableError> {
        Ok(())
    }

    /// Follows the body of a record that the index has followed.
    fn index_body(_index: &mut Self::Index, _seq: Seq, _body: &[u8]) {}

    /// Events that may stand at the end of a batch, merged with their like, because they commute
    /// with everything else in it. Cuts the log's size where many small facts arrive at once.
    fn is_mergeable(_event: &Self::Event) -> bool {
        false
    }

    /// Merges `next` into `into`, or gives it back when they do not fit together.
    ///
    /// # Errors
    ///
    /// `next`, unchanged.
    fn merge(_into: &mut Self::Event, next: Self::Event) -> Result<(), Self::Event> {
        Err(next)
    }

    /// Positions of the bodies that nobody needs once `event` is applied.
    fn releases(event: &Self::Event) -> &[Seq];

    /// Every body that some row needs; `verify` compares it with what is stored.
    ///
    /// # Errors
    ///
    /// When rows cannot be read or decoded.
    fn live_bodies(
        tables: &dyn TableReader,
        visit: &mut dyn FnMut(LiveBody),
    ) -> Result<(), TableError>;

    /// The event that unblocks what waits for a lost body, if the domain has one.
    fn body_lost(seq: Seq) -> Option<Self::Event>;

    /// The events that let go of the messages whose bodies are lost for good. What protects against
    /// their copies stays.
    ///
    /// # Errors
    ///
    /// When rows cannot be read or decoded.
    fn let_go(
        tables: &dyn TableReader,
        lost: &BTreeSet<Seq>,
    ) -> Result<Vec<Self::Event>, TableError>;

    /// An event that changes no row: it takes the position after records that are lost, so that
    /// none of their positions is used again.
    fn nothing() -> Self::Event;
}
