//! Floor 1: shapes on the wire.
