//! Public keys and event ids.

use alloc::string::String;

/// A public key or an event id.
pub type Key = [u8; 32];

/// The key at a field; one of another length is all zeros.
pub(crate) fn view(data: &[u8]) -> &Key {
    static ZEROS: Key = [0; 32];
    data.try_into().unwrap_or(&ZEROS)
}

/// Decodes 64 hex digits or an npub (NIP-19).
pub fn parse_key(text: &str) -> Option<Key> {
    match text.len() {
        64 => parse_hex(text.as_bytes()),
        63 => parse_npub(text.as_bytes()),
        _ => None,
    }
}

fn parse_hex(text: &[u8]) -> Option<Key> {
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(text.chunks(2)) {
        for &c in pair {
            *byte = *byte << 4 | (c as char).to_digit(16)? as u8;
        }
    }
    Some(key)
}

const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

fn parse_npub(text: &[u8]) -> Option<Key> {
    const KEY_WORDS: usize = 52; // 32 bytes in groups of five bits; a checksum follows
    let upper = text[0] == b'N';
    let fold = |c: u8| match upper {
        true if c.is_ascii_lowercase() => None,
        true => Some(c.to_ascii_lowercase()),
        false => Some(c),
    };
    let prefix = b"npub1";
    for (&c, &want) in text.iter().zip(prefix) {
        if fold(c)? != want {
            return None;
        }
    }
    let mut sum = npub_sum();
    let mut key = [0; 32];
    let (mut acc, mut bits, mut n) = (0u32, 0, 0);
    for (i, &c) in text[prefix.len()..].iter().enumerate() {
        let c = fold(c)?;
        let v = CHARSET.iter().position(|&other| other == c)? as u32;
        sum = polymod(sum, v);
        if i >= KEY_WORDS {
            continue;
        }
        acc = acc << 5 | v;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            key[n] = (acc >> bits) as u8;
            acc &= (1 << bits) - 1;
            n += 1;
        }
    }
    (sum == 1 && acc == 0).then_some(key)
}

/// The checksum of bech32 after the prefix npub.
fn npub_sum() -> u32 {
    let prefix = b"npub";
    let high = prefix.iter().map(|c| u32::from(c >> 5));
    let low = prefix.iter().map(|c| u32::from(c & 31));
    high.chain(Some(0)).chain(low).fold(1, polymod)
}

/// Writes bytes as hex digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |v: u8| char::from(b"0123456789abcdef"[usize::from(v)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// Writes a public key as an npub (NIP-19).
pub fn npub(key: &Key) -> String {
    let mut out = String::with_capacity(63);
    out.push_str("npub1");
    let mut sum = npub_sum();
    let mut word = |v: u32| {
        sum = polymod(sum, v);
        out.push(CHARSET[v as usize].into());
    };
    let (mut acc, mut bits) = (0u32, 0);
    for &byte in key {
        acc = (acc << 8 | u32::from(byte)) & 0xfff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            word(acc >> bits & 31);
        }
    }
    word(acc << (5 - bits) & 31); // the last bit of 256
    for _ in 0..6 {
        sum = polymod(sum, 0);
    }
    for i in (0..6).rev() {
        out.push(CHARSET[((sum ^ 1) >> (5 * i) & 31) as usize].into());
    }
    out
}

/// Adds five bits to the checksum of bech32 (BIP-173).
fn polymod(sum: u32, v: u32) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
    let top = sum >> 25;
    let mut sum = (sum & 0x1ffffff) << 5 ^ v;
    for (i, g) in GENERATOR.iter().enumerate() {
        if top >> i & 1 == 1 {
            sum ^= g;
        }
    }
    sum
}
