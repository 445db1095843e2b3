package nip19

// EncodeNpub writes a public key as an npub (NIP-19).
func EncodeNpub(key [32]byte) string { return encodeBech32("npub", key[:]) }

// EncodeNaddr writes an naddr (NIP-19) with a relay that has the event, if relay is
// neither empty nor longer than 255 bytes. It returns "" for an identifier of more than
// 255 bytes, which an naddr cannot hold.
func EncodeNaddr(a Naddr, relay string) string {
	if len(a.D) > 255 {
		return ""
	}
	return encodeBech32("naddr", appendShared(appendField(nil, fieldD, []byte(a.D)), relay, a.PubKey, a.Kind))
}

// EncodeNevent writes a nevent (NIP-19) with the event's author and kind, and a relay
// that has it, if relay is neither empty nor longer than 255 bytes.
func EncodeNevent(id, author [32]byte, kind uint16, relay string) string {
	return encodeBech32("nevent", appendShared(appendField(nil, fieldID, id[:]), relay, author, kind))
}

// appendShared appends what both have beside the name of the event.
func appendShared(data []byte, relay string, author [32]byte, kind uint16) []byte {
	if 0 < len(relay) && len(relay) <= 255 {
		data = appendField(data, fieldRelay, []byte(relay))
	}
	data = appendField(data, fieldAuthor, author[:])
	return appendField(data, fieldKind, []byte{0, 0, byte(kind >> 8), byte(kind)})
}

// appendField appends a type, a length and so many bytes.
func appendField(data []byte, field byte, value []byte) []byte {
	return append(append(data, field, byte(len(value))), value...)
}

// encodeBech32 writes data behind a prefix in lower case (BIP-173).
func encodeBech32(prefix string, data []byte) string {
	const checksum = 6
	out := make([]byte, 0, len(prefix)+1+(len(data)*8+4)/5+checksum)
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]>>5)
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]&31)
	}
	out = append(out, prefix...)
	out = append(out, '1')
	word := func(v byte) {
		sum = polymod(sum, v)
		out = append(out, charset[v])
	}
	var acc uint32
	bits := 0
	for _, b := range data {
		acc, bits = acc<<8|uint32(b), bits+8
		for ; bits >= 5; bits -= 5 {
			word(byte(acc>>(bits-5)) & 31)
		}
		acc &= 1<<bits - 1
	}
	if bits > 0 {
		word(byte(acc<<(5-bits)) & 31)
	}
	for range checksum {
		sum = polymod(sum, 0)
	}
	sum ^= 1
	for i := range checksum {
		out = append(out, charset[sum>>(5*(checksum-1-i))&31])
	}
	return string(out)
}
