//! Sealed sessions between two of ours, without IO: the machine alone and in pairs, a relay that
//! does what relays can do, and files that move.

mod files;
mod hostile;
mod lossy;
mod pinned;
mod session;
mod world;
