//! The settings of a module.

use crate::key::Key;
use crate::verdict::cut;
use crate::wire::{self, Field};
use alloc::string::String;
use alloc::vec::Vec;

/// Every setting of the manifest: the operator's value, or the default. The host has
/// checked types and limits. A key that the manifest does not have ends the instance.
pub struct Config<'a>(pub(crate) &'a [u8]);

impl<'a> Config<'a> {
    fn setting(&self, key: &str) -> &'a [u8] {
        wire::values(self.0, 1)
            .find(|setting| wire::data(setting, 1) == key.as_bytes())
            .unwrap_or_else(|| wire::malformed())
    }

    /// A setting of type string.
    pub fn string(&self, key: &str) -> &'a str {
        self.strings(key).next().unwrap_or("")
    }

    /// A setting of type strings.
    pub fn strings(&self, key: &str) -> impl Iterator<Item = &'a str> {
        wire::values(self.setting(key), 2).map(wire::text)
    }

    /// A setting of type int.
    pub fn int(&self, key: &str) -> i64 {
        self.ints(key).next().unwrap_or(0)
    }

    /// A setting of type ints.
    pub fn ints(&self, key: &str) -> impl Iterator<Item = i64> + 'a {
        wire::numbers(self.setting(key), 3).map(|v| v as i64)
    }

    /// A setting of type bool.
    pub fn bool(&self, key: &str) -> bool {
        wire::numbers(self.setting(key), 4).next().unwrap_or(0) != 0
    }

    /// A setting of type float.
    pub fn float(&self, key: &str) -> f64 {
        for field in wire::fields(self.setting(key)) {
            match field {
                Field::Fixed(5, bits) => return f64::from_bits(bits),
                Field::Data(5, packed) => {
                    if let Some(Ok(bytes)) = packed.get(..8).map(<[u8; 8]>::try_from) {
                        return f64::from_le_bytes(bytes);
                    }
                }
                _ => {}
            }
        }
        0.0
    }

    /// The host name of the relay, with a port if it is not the usual one.
    pub fn domain(&self) -> &'a str {
        wire::text(wire::data(wire::data(self.0, 2), 1))
    }

    /// The operator's public key, if one is named.
    pub fn operator(&self) -> Option<&'a Key> {
        wire::data(wire::data(self.0, 2), 3).try_into().ok()
    }

    /// Whether the relay takes pull requests under /prs/ (GRASP-06).
    pub fn prs(&self) -> bool {
        wire::numbers(wire::data(self.0, 2), 2).last().unwrap_or(0) != 0
    }
}

/// The error for a value that the manifest cannot describe as wrong.
pub struct WrongValue(pub(crate) String);

impl WrongValue {
    /// Names the key, the value, and a valid value: "an npub or 64 hex digits".
    pub fn new(key: &str, value: &str, want: &str) -> Self {
        let mut s = String::from("config ");
        for part in [key, " has \"", cut(value), "\": want ", want] {
            s.push_str(part);
        }
        WrongValue(s)
    }
}

/// Whether a client must know the rules of a policy before it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    #[default]
    Unsaid = 0,
    /// Every valid event is accepted, except for spam and excess.
    Open = 1,
    /// Only events of some authors, some kinds, about something.
    Restricted = 2,
}

/// Figures that a policy enforces, as the relay's information document (NIP-11) names them. The
/// document shows the strictest of all policies. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limitation {
    /// Bytes of the content.
    pub max_content_length: i64,
    pub max_event_tags: i64,
    /// Seconds in the past.
    pub created_at_lower_limit: i64,
    /// Seconds in the future.
    pub created_at_upper_limit: i64,
    /// Bits that an event of some class must have.
    pub min_pow_difficulty: i64,
    /// Nothing can be read without authentication (NIP-42).
    pub auth_required: bool,
}

impl Limitation {
    fn write(&self, b: &mut Vec<u8>) {
        let figures = [
            self.max_content_length,
            self.max_event_tags,
            self.created_at_lower_limit,
            self.created_at_upper_limit,
            self.min_pow_difficulty,
            i64::from(self.auth_required),
        ];
        for (field, n) in (1..).zip(figures) {
            if n != 0 {
                wire::put_number(b, field, n as u64);
            }
        }
    }
}

/// The description of a policy that has taken its configuration, for the host.
#[derive(Default)]
pub struct Configured {
    /// Functions that pass every request, configured like this: the host does not call
    /// them.
    pub idle: &'static [&'static str],
    /// The specifications that the policy implements: GRASP-01, …. A policy that names GRASP-01
    /// hosts repositories. It may hold an event of kind 30617, 30618, 1618 or 1619 that an earlier
    /// policy accepts.
    pub grasps: &'static [&'static str],
    /// Which repositories are accepted, one line, for the relay's information document.
    pub criteria: String,
    /// The operator's rule for choosing among them, likewise.
    pub curation: String,
    /// The authors whose events this policy accepts.
    pub writes: Writes,
    /// Figures that this policy enforces.
    pub limits: Limitation,
}

impl Configured {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        for function in self.idle {
            wire::put_text(b, 2, function);
        }
        let mut about = Vec::new();
        for grasp in self.grasps {
            wire::put_text(&mut about, 1, grasp);
        }
        wire::put_text(&mut about, 2, cut(&self.criteria));
        wire::put_text(&mut about, 3, cut(&self.curation));
        if self.writes != Writes::Unsaid {
            wire::put_number(&mut about, 4, self.writes as u64);
        }
        let mut limits = Vec::new();
        self.limits.write(&mut limits);
        if !limits.is_empty() {
            wire::put_data(&mut about, 5, &limits);
        }
        if !about.is_empty() {
            wire::put_data(b, 3, &about);
        }
    }
}
