//! Protobuf, read in place and written to the end of a buffer.

use alloc::vec::Vec;

/// Ends the instance, because the request is malformed: the host never sends one.
#[cold]
#[inline(never)]
pub fn malformed() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    panic!("the request is malformed");
}

/// A field: its number, and its value.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    Number(u32, u64),
    Fixed(u32, u64),
    Data(u32, &'a [u8]),
}

impl Field<'_> {
    pub fn number(&self) -> u32 {
        match *self {
            Field::Number(n, _) | Field::Fixed(n, _) | Field::Data(n, _) => n,
        }
    }
}

/// Walks the fields of a message.
#[derive(Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'a> Fields<'a> {
    /// Returns the next number; `None` if there is none of at most ten bytes.
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        match *self.rest.first()? {
            c if c < 0x80 => {
                self.rest = &self.rest[1..];
                Some(c.into())
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Option<u64> {
        let mut v = 0;
        for (i, &c) in self.rest.iter().enumerate().take(10) {
            if i == 9 && c > 1 {
                return None;
            }
            v |= u64::from(c & 0x7f) << (7 * i);
            if c < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Some(v);
            }
        }
        None
    }

    #[inline]
    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        if n > self.rest.len() as u64 {
            return None;
        }
        let (data, rest) = self.rest.split_at(n as usize);
        self.rest = rest;
        Some(data)
    }

    fn fixed(&mut self, n: u64) -> Option<u64> {
        let data = self.take(n)?;
        Some(data.iter().rev().fold(0, |v, &c| v << 8 | u64::from(c)))
    }

    fn read(&mut self) -> Option<Field<'a>> {
        let key = self.varint()?;
        if key < 8 || key > u64::from(u32::MAX) {
            return None;
        }
        let field = (key >> 3) as u32;
        match key & 7 {
            0 => Some(Field::Number(field, self.varint()?)),
            2 => {
                let n = self.varint()?;
                Some(Field::Data(field, self.take(n)?))
            }
            1 => Some(Field::Fixed(field, self.fixed(8)?)),
            5 => Some(Field::Fixed(field, self.fixed(4)?)),
            _ => None,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match self.read() {
            None => malformed(),
            field => field,
        }
    }
}

/// Walks the values of a repeated field of text or bytes.
#[derive(Clone)]
pub struct Values<'a> {
    fields: Fields<'a>,
    number: u32,
}

pub fn values(message: &[u8], number: u32) -> Values<'_> {
    Values {
        fields: fields(message),
        number,
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            match self.fields.next()? {
                Field::Data(number, data) if number == self.number => return Some(data),
                _ => {}
            }
        }
    }
}

/// Walks the values of a repeated field of numbers, packed or not.
#[derive(Clone)]
pub struct Numbers<'a> {
    fields: Fields<'a>,
    packed: Fields<'a>,
    number: u32,
}

pub fn numbers(message: &[u8], number: u32) -> Numbers<'_> {
    Numbers {
        fields: fields(message),
        packed: fields(&[]),
        number,
    }
}

impl<'a> Iterator for Numbers<'a> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            if !self.packed.rest.is_empty() {
                match self.packed.varint() {
                    None => malformed(),
                    v => return v,
                }
            }
            match self.fields.next()? {
                Field::Number(number, v) if number == self.number => return Some(v),
                Field::Data(number, data) if number == self.number => self.packed = fields(data),
                _ => {}
            }
        }
    }
}

/// The last value of a field of text or bytes, empty if there is none.
pub fn data(message: &[u8], number: u32) -> &[u8] {
    values(message, number).last().unwrap_or(&[])
}

/// Text that the host has sent.
pub fn text(data: &[u8]) -> &str {
    core::str::from_utf8(data).unwrap_or_else(|_| malformed())
}

/// A number of 32 bits.
pub fn uint(v: u64) -> u32 {
    v.try_into().unwrap_or(u32::MAX)
}

pub fn put_varint(b: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        b.push(v as u8 | 0x80);
        v >>= 7;
    }
    b.push(v as u8);
}

pub fn put_number(b: &mut Vec<u8>, field: u32, v: u64) {
    put_varint(b, u64::from(field) << 3);
    put_varint(b, v);
}

/// Writes a field of text or bytes that is put together of parts.
pub fn put_parts(b: &mut Vec<u8>, field: u32, parts: &[&[u8]]) {
    put_varint(b, u64::from(field) << 3 | 2);
    put_varint(b, parts.iter().map(|part| part.len() as u64).sum());
    for part in parts {
        b.extend_from_slice(part);
    }
}

pub fn put_data(b: &mut Vec<u8>, field: u32, data: &[u8]) {
    put_parts(b, field, &[data]);
}

/// Writes a field of a number, nothing for zero.
pub fn put_some(b: &mut Vec<u8>, field: u32, v: u64) {
    if v != 0 {
        put_number(b, field, v);
    }
}

/// Writes a field whose message `write` appends.
pub fn put_message(b: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(b, u64::from(field) << 3 | 2);
    let at = b.len();
    write(b);
    let mut length = Vec::with_capacity(5);
    put_varint(&mut length, (b.len() - at) as u64);
    b.splice(at..at, length);
}

/// Writes a field of text, nothing for an empty one.
pub fn put_text(b: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        put_data(b, field, text.as_bytes());
    }
}
