//! Just enough of Rust's lexical grammar to tell a path from a comment that mentions one.
//!
//! A line-based search would trip over doc comments, strings and nested `use` groups; a parser
//! crate would be a large dependency for one test.

/// What a token is; punctuation keeps its text, `::` is one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Identifier, keyword or number.
    Name,
    /// The content of a string literal.
    Text,
    /// Punctuation.
    Mark,
}

/// One token with its place.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Inside an item under `#[cfg(test)]`, the attribute included.
    pub(crate) test: bool,
    /// Inside an item under `#[cfg(feature = "testkit")]`.
    pub(crate) testkit: bool,
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<Token>,
}

/// The tokens of `text`, comments dropped, test regions marked.
pub(crate) fn lex(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        out: Vec::new(),
    };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    mark_regions(&mut lexer.out);
    lexer.out
}

fn in_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn bump(&mut self) -> char {
        let c = self.peek(0);
        self.at += 1;
        if c == '\n' {
            self.line += 1;
        }
        c
    }

    fn push(&mut self, kind: Kind, text: String, line: usize) {
        self.out.push(Token {
            kind,
            text,
            line,
            test: false,
            testkit: false,
        });
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (c, _) if c.is_whitespace() => {
                self.bump();
            }
            ('/', '/') => {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.bump();
                }
            }
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            (c, _) if in_name(c) => self.name(),
            (':', ':') => {
                self.at += 2;
                self.push(Kind::Mark, "::".to_owned(), self.line);
            }
            (c, _) => {
                self.bump();
                self.push(Kind::Mark, c.to_string(), self.line);
            }
        }
    }

    fn block_comment(&mut self) {
        let mut nesting = 0usize;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    nesting += 1;
                    self.at += 2;
                }
                ('*', '/') => {
                    nesting -= 1;
                    self.at += 2;
                    if nesting == 0 {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        let mut text = String::new();
        self.bump();
        while self.at < self.chars.len() {
            match self.bump() {
                '"' => break,
                '\\' => {
                    self.bump();
                }
                c => text.push(c),
            }
        }
        self.push(Kind::Text, text, line);
    }

    /// A raw string whose `r` (or `br`, `cr`) was read already.
    fn raw_string(&mut self, hashes: usize) {
        let line = self.line;
        self.at += hashes + 1;
        let mut text = String::new();
        while self.at < self.chars.len() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|i| self.peek(i) == '#');
            if closes {
                self.at += hashes + 1;
                break;
            }
            text.push(self.bump());
        }
        self.push(Kind::Text, text, line);
    }

    /// A character literal or a lifetime.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.at += 3;
            while self.at < self.chars.len() && self.bump() != '\'' {}
        } else if self.peek(2) == '\'' {
            self.at += 1;
            self.bump();
            self.at += 1;
        } else {
            self.at += 1;
            while in_name(self.peek(0)) {
                self.at += 1;
            }
        }
    }

    fn name(&mut self) {
        let line = self.line;
        let start = self.at;
        while in_name(self.peek(0)) {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if matches!(text.as_str(), "r" | "br" | "cr") {
            let hashes = (0..).take_while(|i| self.peek(*i) == '#').count();
            if self.peek(hashes) == '"' {
                return self.raw_string(hashes);
            }
        }
        self.push(Kind::Name, text, line);
    }
}

/// Marks every item under `#[cfg(..test..)]` or `#[cfg(..feature = "testkit"..)]`.
fn mark_regions(tokens: &mut [Token]) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let opens =
            tokens[at].text == "#" && tokens[at + 1].text == "[" && tokens[at + 2].text == "cfg";
        if !opens {
            at += 1;
            continue;
        }
        let close = matching(tokens, at + 1, "[", "]");
        let condition = &tokens[at + 2..close];
        let negated = condition.iter().any(|t| t.text == "not");
        let test = !negated
            && condition
                .iter()
                .any(|t| t.kind == Kind::Name && t.text == "test");
        let testkit = condition
            .iter()
            .any(|t| t.kind == Kind::Text && t.text == "testkit");
        if test || testkit {
            let end = item_end(tokens, close + 1);
            for token in &mut tokens[at..end] {
                token.test |= test;
                token.testkit |= testkit;
            }
        }
        at = close + 1;
    }
}

/// Index of the token that closes the bracket at `open`, or the last one.
fn matching(tokens: &[Token], open: usize, opening: &str, closing: &str) -> usize {
    let mut nesting = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Text {
            continue;
        }
        if token.text == opening {
            nesting += 1;
        } else if token.text == closing {
            nesting -= 1;
            if nesting == 0 {
                return i;
            }
        }
    }
    tokens.len() - 1
}

/// One past the item that starts at `from`: its `;`, or the brace that closes its body.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let (mut import, mut nesting) = (false, 0usize);
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match (token.kind, token.text.as_str()) {
            (Kind::Text, _) => {}
            (_, "use") => import = true,
            (_, "(" | "[") => nesting += 1,
            (_, ")" | "]") => nesting = nesting.saturating_sub(1),
            (_, ";") if nesting == 0 => return i + 1,
            (_, "{") if !import => return matching(tokens, i, "{", "}") + 1,
            _ => {}
        }
    }
    tokens.len()
}
