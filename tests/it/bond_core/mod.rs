//! Sealed sessions without IO: the shared vectors, the machine alone, and two machines with a bad
//! relay between them.

mod keys;
mod link;
mod lossy;
mod session;
mod vectors;
