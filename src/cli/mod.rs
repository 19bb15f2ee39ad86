//! Floor 6: the command lines. Flags, exit codes and output of the four programs; the work itself
//! is done below.

pub mod keygen;
pub mod paths;
