package nip19

import "errors"

var (
	errSecretShape    = errors.New("not an nsec or 64 hex digits")
	errSecretChecksum = errors.New("the checksum of the nsec is wrong")
)

// ParseSecretKey decodes an nsec, or 64 hex digits in either case. No error
// quotes the text. Whether the number is a key, from 1 to the order of the curve,
// is for whoever signs with it.
func ParseSecretKey(s string) (key [32]byte, err error) {
	if len(s) == 64 {
		if key, err = parseHex(s); err != nil {
			err = errSecretShape
		}
		return key, err
	}
	data, err := decodeBech32("nsec", s)
	switch {
	case err == errNaddrChecksum:
		return key, errSecretChecksum
	case err != nil || len(data) != len(key):
		return key, errSecretShape
	}
	return [32]byte(data), nil
}

// EncodeNsec writes a secret key as an nsec (NIP-19).
func EncodeNsec(key [32]byte) string { return encodeBech32("nsec", key[:]) }
