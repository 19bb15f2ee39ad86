//! Floor 4: the storage engine.
