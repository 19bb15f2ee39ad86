//! What a sealed session does with names and bytes of its peer, and with files of its own.
//!
//! A peer proved that it knows the code, nothing else: its names, its notes and its files are data
//! of a stranger. Three readers meet them, and each gets another text:
//!
//! - the *disk* gets the exact bytes, under a name that passed [`names`];
//! - the *human* who decides gets a preview ([`preview`]), in which everything unseen is spelled out;
//! - the *model* gets, before the decision, facts and names of rules only
//!   ([`preview::Offered::for_model`]);
//!   after it, the text between markers that its author could not know ([`wrap`]).
//!
//! [`scan`] finds phrases that address a model, in the peer's text. [`secrets`] finds keys and
//! credentials, in our own. Both take linear time and bounded memory, and promise nothing: they are
//! hints to a human, never a gate for what is otherwise trusted.
//!
//! Pure: no clock, no randomness, no files.

pub mod names;
pub mod preview;
pub mod scan;
pub mod secrets;
pub mod wrap;

mod marker;
mod skeleton;

#[cfg(test)]
mod tests {
    #[test]
    fn the_largest_legacy_file_of_control_characters_fits_a_relay() {
        // Six characters of JSON for each byte, two hexadecimal digits for each of those.
        let bytes = 384 * 1024;
        let text = "\u{1}".repeat(bytes);
        let packet = serde_json::json!({ "type": "file_transfer", "filename": "x".repeat(200),
            "content": text, "message": "", "nonce": "0".repeat(32), "timestamp": u64::MAX });
        assert!(packet.to_string().len() * 2 + 1024 < 5 * 1024 * 1024);
    }
}
