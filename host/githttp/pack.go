package githttp

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"talon/host/gitrepo"
)

var errNoPack = errors.New("what follows the commands is no pack")

// packHead is how long the beginning of a pack is: PACK, a version, and the number of
// its objects.
const packHead = 12

// readPackHead reads the beginning of a pack. It reports whether that is all but for a
// sum, which it reads as well: git sends a pack of nothing with a ref to what is there.
func readPackHead(r io.Reader, format gitrepo.Format) (head []byte, empty bool, err error) {
	head = make([]byte, packHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, false, shortPack(err)
	}
	if string(head[:4]) != "PACK" {
		return nil, false, errNoPack
	}
	if binary.BigEndian.Uint32(head[8:]) > 0 {
		return head, false, nil
	}
	one, two := sha1.Sum(head), sha256.Sum256(head)
	want := one[:]
	if format == gitrepo.SHA256 {
		want = two[:]
	}
	sum := make([]byte, len(want))
	if _, err := io.ReadFull(r, sum); err != nil {
		return nil, false, shortPack(err)
	}
	if !bytes.Equal(sum, want) {
		return nil, false, errNoPack
	}
	return head, true, nil
}

// shortPack tells a pack that is cut off from a client that is.
func shortPack(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errNoPack
	}
	return err
}
