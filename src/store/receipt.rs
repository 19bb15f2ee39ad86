//! The promise of an answer.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::commit::Committed;
use super::error::CommandError;
use super::sync::recv;
use crate::domain::Domain;

pub(super) type Answer<D> =
    Result<Committed<<D as Domain>::Reply>, CommandError<<D as Domain>::Refusal>>;

/// Resolves when a command is durable or has failed. Await it, or [`wait`](Receipt::wait) in
/// blocking code.
#[must_use = "nothing is known of a command before its receipt resolves"]
pub struct Receipt<D: Domain>(oneshot::Receiver<Answer<D>>);

impl<D: Domain> Receipt<D> {
    pub(super) fn pair() -> (oneshot::Sender<Answer<D>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Receipt(receiver))
    }

    /// Blocks until the answer is there.
    ///
    /// # Errors
    ///
    /// See [`CommandError`].
    pub fn wait(self) -> Answer<D> {
        recv(self.0).unwrap_or(Err(CommandError::Closed))
    }
}

impl<D: Domain> IntoFuture for Receipt<D> {
    type Output = Answer<D>;
    type IntoFuture = Pending<D>;

    fn into_future(self) -> Pending<D> {
        Pending(self.0.into_future())
    }
}

/// The future behind a [`Receipt`].
#[must_use = "futures do nothing unless polled"]
pub struct Pending<D: Domain>(oneshot::AsyncReceiver<Answer<D>>);

impl<D: Domain> Future for Pending<D> {
    type Output = Answer<D>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|r| r.unwrap_or(Err(CommandError::Closed)))
    }
}
