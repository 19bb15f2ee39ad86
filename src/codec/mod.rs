//! Floor 1: bytes on disk. [`frame`] is the self-standing envelope of one record; [`body`] is the
//! only place that knows which serialiser fills it, so that the serialiser can be replaced without
//! touching a caller (decision in `docs/adr/0005-bincode-behind-one-seam.md`).

pub mod body;
pub mod frame;
