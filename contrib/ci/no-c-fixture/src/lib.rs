//! Empty: the manifest is the fixture.
