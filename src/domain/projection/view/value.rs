//! A stored struct as JSON that reads well: a serialiser that differs from that of `serde_json` in
//! two points. Alternatives are named in lower case with underscores, and arrays of bytes of a
//! fixed length (digests, hashes) are hex.

use serde::ser::{
    Impossible, Serialize, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::value::Serializer as Plain;
use serde_json::{Error, Map, Value};

/// Arrays of at least so many bytes are hex.
const HEX_FROM: usize = 16;

/// The value of a row; null for what JSON cannot say, which no row contains.
pub(super) fn of<T: Serialize + ?Sized>(row: &T) -> Value {
    row.serialize(View).unwrap_or(Value::Null)
}

struct View;

/// `NeedsInput` becomes `needs_input`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// An alternative with what it has.
fn tagged(variant: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(snake(variant), value)]))
}

/// The items of a list; of a fixed length or not.
struct List {
    items: Vec<Value>,
    fixed: bool,
    variant: Option<&'static str>,
}

impl List {
    fn new(fixed: bool) -> List {
        List {
            items: vec![],
            fixed,
            variant: None,
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.items.push(item.serialize(View)?);
        Ok(())
    }

    fn finish(self) -> Value {
        let byte = |item: &Value| item.as_u64().and_then(|n| u8::try_from(n).ok());
        let bytes = (self.fixed && self.items.len() >= HEX_FROM)
            .then(|| self.items.iter().map(byte).collect::<Option<Vec<u8>>>())
            .flatten();
        let list = match bytes {
            Some(bytes) => Value::String(data_encoding::HEXLOWER.encode(&bytes)),
            None => Value::Array(self.items),
        };
        match self.variant {
            Some(variant) => tagged(variant, list),
            None => list,
        }
    }
}

/// The members of an object.
struct Members {
    members: Map<String, Value>,
    variant: Option<&'static str>,
}

impl Members {
    fn new() -> Members {
        Members {
            members: Map::new(),
            variant: None,
        }
    }

    fn set<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.members.insert(name.to_owned(), value.serialize(View)?);
        Ok(())
    }

    fn finish(self) -> Value {
        match self.variant {
            Some(variant) => tagged(variant, Value::Object(self.members)),
            None => Value::Object(self.members),
        }
    }
}

macro_rules! plain {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(
            fn $method(self, v: $type) -> Result<Value, Error> {
                Plain.$method(v)
            }
        )*
    };
}

impl Serializer for View {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    // Stored types have no maps: their order would not be canonical.
    type SerializeMap = Impossible<Value, Error>;
    type SerializeStruct = Members;
    type SerializeStructVariant = Members;

    plain!(
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_f32: f32,
        serialize_f64: f64,
        serialize_char: char,
        serialize_str: &str,
    );

    fn serialize_bytes(self, v: &[u8]) -> Result<Value, Error> {
        Ok(Value::String(data_encoding::HEXLOWER.encode(v)))
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(View)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(Value::String(snake(variant)))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(View)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(tagged(variant, value.serialize(View)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List, Error> {
        Ok(List::new(false))
    }

    fn serialize_tuple(self, _: usize) -> Result<List, Error> {
        Ok(List::new(true))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List, Error> {
        Ok(List::new(true))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List, Error> {
        let mut list = List::new(true);
        list.variant = Some(variant);
        Ok(list)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, Error> {
        let _ = len;
        Err(serde::ser::Error::custom("a stored row has no maps"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members, Error> {
        Ok(Members::new())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members, Error> {
        let mut members = Members::new();
        members.variant = Some(variant);
        Ok(members)
    }
}

impl SerializeSeq for List {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.push(item)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl SerializeTuple for List {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.push(item)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl SerializeTupleStruct for List {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.push(item)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl SerializeTupleVariant for List {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.push(item)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl SerializeStruct for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.set(name, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl SerializeStructVariant for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.set(name, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}
