//! Rows -> what a caller wants to know. Pure reads, over a snapshot or inside a decision.
