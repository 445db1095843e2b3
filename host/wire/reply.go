package wire

import (
	"encoding/hex"
	"strconv"

	"talon/host"
)

// AppendEventPrefix appends what stands before the event's JSON in an EVENT
// message; the message ends with "]". A relay that sends one event to many
// subscriptions writes only this part for each.
func AppendEventPrefix(b []byte, subID string) []byte {
	b = append(b, `["EVENT",`...)
	b = host.AppendString(b, subID)
	return append(b, ',')
}

// AppendOK appends ["OK",id,ok,reason].
func AppendOK(b []byte, id string, ok bool, reason string) []byte {
	b = append(b, `["OK",`...)
	b = host.AppendString(b, id)
	b = append(b, ',')
	b = strconv.AppendBool(b, ok)
	b = append(b, ',')
	b = host.AppendString(b, reason)
	return append(b, ']')
}

// AppendEOSE appends ["EOSE",subID].
func AppendEOSE(b []byte, subID string) []byte {
	return appendStrings(b, "EOSE", subID)
}

// AppendClosed appends ["CLOSED",subID,reason].
func AppendClosed(b []byte, subID, reason string) []byte {
	return appendStrings(b, "CLOSED", subID, reason)
}

// AppendNotice appends ["NOTICE",text].
func AppendNotice(b []byte, text string) []byte {
	return appendStrings(b, "NOTICE", text)
}

// AppendAuth appends ["AUTH",challenge] (NIP-42).
func AppendAuth(b []byte, challenge string) []byte {
	return appendStrings(b, "AUTH", challenge)
}

// AppendCount appends ["COUNT",subID,{"count":n}], with the registers of a
// HyperLogLog where there are any (NIP-45).
func AppendCount(b []byte, subID string, n int64, hll []byte) []byte {
	b = append(b, `["COUNT",`...)
	b = host.AppendString(b, subID)
	b = append(b, `,{"count":`...)
	b = strconv.AppendInt(b, n, 10)
	if hll != nil {
		b = append(b, `,"hll":"`...)
		b = hex.AppendEncode(b, hll)
		b = append(b, '"')
	}
	return append(b, "}]"...)
}

// AppendNegMsg appends ["NEG-MSG",subID,hex] (NIP-77).
func AppendNegMsg(b []byte, subID string, msg []byte) []byte {
	b = append(b, `["NEG-MSG",`...)
	b = host.AppendString(b, subID)
	b = append(b, ',', '"')
	b = hex.AppendEncode(b, msg)
	return append(b, '"', ']')
}

// AppendNegErr appends ["NEG-ERR",subID,reason] (NIP-77).
func AppendNegErr(b []byte, subID, reason string) []byte {
	return appendStrings(b, "NEG-ERR", subID, reason)
}

func appendStrings(b []byte, items ...string) []byte {
	b = append(b, '[')
	for i, s := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = host.AppendString(b, s)
	}
	return append(b, ']')
}
