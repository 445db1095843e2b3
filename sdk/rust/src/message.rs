//! Messages that are read whole, and numbers that have names.

use crate::request::Origin;
use crate::wire::{self, Field};

/// The value of a field: of one with another wire type nothing is taken.
pub trait Value<'a> {
    fn take(&mut self, field: Field<'a>);
}

impl<'a> Value<'a> for &'a str {
    fn take(&mut self, field: Field<'a>) {
        if let Field::Data(_, data) = field {
            *self = wire::text(data);
        }
    }
}

impl<'a> Value<'a> for &'a [u8] {
    fn take(&mut self, field: Field<'a>) {
        if let Field::Data(_, data) = field {
            *self = data;
        }
    }
}

impl<'a> Value<'a> for f64 {
    fn take(&mut self, field: Field<'a>) {
        if let Field::Fixed(_, v) = field {
            *self = f64::from_bits(v);
        }
    }
}

/// Takes a number by a function.
macro_rules! number {
    ($type:ty, $of:expr) => {
        impl<'a> crate::message::Value<'a> for $type {
            fn take(&mut self, field: crate::wire::Field<'a>) {
                if let crate::wire::Field::Number(_, v) = field {
                    *self = $of(v);
                }
            }
        }
    };
}

number!(i64, |v| v as i64);
number!(u32, wire::uint);
number!(bool, |v| v != 0);
number!(Origin, Origin::of);

/// Makes an enum of a number of the host. A value that this version does not know becomes the first
/// one.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = 0, $($(#[$each_doc:meta])* $each:ident = $n:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[$first_doc])*
            $first = 0,
            $($(#[$each_doc])* $each = $n,)*
        }

        impl $name {
            fn of(v: u64) -> Self {
                match v {
                    $($n => $name::$each,)*
                    _ => $name::$first,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::$first
            }
        }

        crate::message::number!($name, $name::of);
    };
}

/// Makes a message of its fields, each followed by its number. A message with a lifetime keeps the
/// bytes that it was read from, for its lists.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident [$($life:lifetime)?] { $($(#[$field_doc:meta])* $field:ident: $type:ty = $n:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name<$($life)?> {
            $($(#[$field_doc])* pub $field: $type,)*
            $(raw: &$life [u8],)?
        }

        impl<$($life)?> $name<$($life)?> {
            #[allow(clippy::needless_update)]
            pub(crate) fn read(message: &$($life)? [u8]) -> Self {
                let mut m = $name { $(raw: { let raw: &$life [u8] = message; raw },)? ..Default::default() };
                for field in crate::wire::fields(message) {
                    match field.number() {
                        $($n => crate::message::Value::take(&mut m.$field, field),)*
                        _ => {}
                    }
                }
                m
            }
        }

        impl<'m $(: $life, $life)?> crate::message::Value<'m> for $name<$($life)?> {
            fn take(&mut self, field: crate::wire::Field<'m>) {
                if let crate::wire::Field::Data(_, data) = field {
                    *self = $name::read(data);
                }
            }
        }
    };
}

pub(crate) use {message, names, number};
