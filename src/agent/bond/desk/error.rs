//! Why something could not be done in a sealed session.

use crate::agent::bond::file::FileError;
use crate::agent::bond::relay::BondUrlError;
use crate::agent::bond::tell;
use crate::agent::connect::SetUpError;
use crate::agent::ledger::LedgerError;
use crate::domain::machine::bond::{SendError, TransferFailure};
use crate::types::entropy::EntropyError;
use crate::wire::bond::code::CodeError;
use crate::wire::bond::file_mail::NotComing;

/// Something could not be done in a sealed session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskError {
    /// The relay's address is none.
    #[error("{0}; give another with --bond-relay or INTERLINK_BOND_RELAY")]
    Address(#[from] BondUrlError),
    /// No HTTP.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// There is a session.
    #[error("this process is in a sealed session already: bond_end ends it")]
    Open,
    /// Not a code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The relay did not open the session.
    #[error("the session could not be opened: {0}")]
    NotOpened(String),
    /// There is no session.
    #[error(
        "not connected: there is no sealed session; bond_connect opens one, bond_join joins one"
    )]
    NotConnected,
    /// The machine says no.
    #[error("{}", tell::why_not_sent(.0))]
    Send(SendError),
    /// The relay did not take it.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The session ended meanwhile.
    #[error("the session ended before the relay answered; whether it was sent is not known")]
    Interrupted,
    /// A file of ours.
    #[error(transparent)]
    File(#[from] FileError),
    /// No such file waits.
    #[error("no file of this id waits; bond_status lists those that do")]
    UnknownTransfer,
    /// The file is not the one that was looked at.
    #[error("the file that waits under this id is not the one that was shown")]
    Changed,
    /// Somebody decides about it at this moment.
    #[error("somebody is deciding about this file already")]
    Deciding,
    /// Somebody decided otherwise before.
    #[error("it was decided otherwise about this file before")]
    Decided,
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The decision could not be recorded.
    #[error("nothing was done, because it could not be recorded: {0}")]
    Books(LedgerError),
    /// An accepted file takes its time.
    #[error("the file is accepted and on its way; bond_wait tells when it is there")]
    Arriving,
    /// An accepted file did not arrive.
    #[error("the file did not arrive: {}", tell::why_failed(*.0))]
    NotArrived(TransferFailure),
    /// This session is none in which two sides can pin each other.
    #[error(
        "pinning needs a confirmed session of a spoken code: bond_connect with `spoken` opens one"
    )]
    NotForPinning,
    /// The session is one between peers, for a file.
    #[error(
        "this session is with the peer {0}, for a file between you, and takes nothing else. bond_status \
         tells how it stands; bond_end ends it"
    )]
    Errand(String),
    /// Nothing here may write to the log.
    #[error("no conversation of this process is there to admit anybody; try again")]
    NoHome,
    /// The other side could not be admitted.
    #[error("the other side is not pinned: {0}")]
    NotPinned(String),
    /// No relay took the invitation.
    #[error("no relay of this session takes a message to {0} now; nothing was sent")]
    NotReached(String),
    /// The peer's program did not come.
    #[error("{0}'s program did not come within a minute: it does not run, or reads no mail")]
    NotComing(String),
    /// The peer's program said no.
    #[error("{}", tell::why_not_coming(*.0))]
    Invitation(#[from] NotComing),
    /// A thread did not come back.
    #[error("the work was interrupted")]
    Thread,
}

impl DeskError {
    /// The word that records hold; `None` where the session's own record says more.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            DeskError::Address(_) => Some("bad_relay_address"),
            DeskError::SetUp(_) => Some("no_http"),
            DeskError::Open => Some("already_open"),
            DeskError::Code(_) => Some("bad_code"),
            DeskError::NotConnected => Some("not_connected"),
            DeskError::Send(e) => Some(tell::send_error_name(e)),
            DeskError::File(e) => Some(e.name()),
            DeskError::Decided => Some("decided_before"),
            DeskError::UnknownTransfer => Some("unknown_transfer"),
            DeskError::Changed => Some("changed"),
            DeskError::NotArrived(_) => Some("not_arrived"),
            DeskError::Deciding => Some("being_decided"),
            DeskError::NotForPinning => Some("not_for_pinning"),
            DeskError::Errand(_) => Some("between_peers"),
            DeskError::NoHome => Some("no_conversation"),
            DeskError::NotPinned(_) => Some("not_pinned"),
            DeskError::NotReached(_) => Some("peer_not_reached"),
            DeskError::NotComing(_) => Some("peer_did_not_come"),
            DeskError::Invitation(why) => Some(match why {
                NotComing::Busy => "peer_busy",
                NotComing::Relay => "peer_uses_another_relay",
                NotComing::Failed => "peer_could_not_join",
            }),
            DeskError::Entropy(_) => Some("no_randomness"),
            DeskError::Thread | DeskError::Interrupted => Some("interrupted"),
            DeskError::NotOpened(_)
            | DeskError::NotSent(_)
            | DeskError::Books(_)
            | DeskError::Arriving => None,
        }
    }
}
