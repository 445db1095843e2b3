package policy

import (
	"unsafe"

	"talon/sdk/abi"
)

// Facts are the functions of the host, by which a policy learns what the relay
// knows and keeps what it must remember. Every input has them. Each needs a
// capability that the manifest asks for.
//
// Names, keys and members are text without a copy; [Facts.Key] builds them without
// allocation.
type Facts struct{ c *call }

// Now is the time of the decision in unix seconds, the only clock there is.
func (f Facts) Now() int64 { return f.c.now }

// Key joins parts to one text, without allocation: the key of an author's bucket
// is
//
//	in.Key("author:", string(pk[:]))
//
// It is valid until the next call of Key.
func (f Facts) Key(parts ...string) string {
	c := f.c
	c.key = c.key[:0]
	for _, part := range parts {
		c.key = append(c.key, part...)
	}
	return view(c.key)
}

// view returns b as text without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// call is the state of one decision. It is reused, so that a decision allocates
// nothing.
type call struct {
	admit   abi.AdmitRequestView
	query   abi.QueryRequestView
	connect abi.ConnectRequestView
	push    abi.PushRequestView
	now     int64

	host   hostFunctions
	answer []byte // of the last function that answered with data
	filter []byte // of the last Query
	key    []byte // of the last Key
	object []byte // of the last GitHasCommit
	member PubKey // of the last PubKeyInSet
	got    abi.EventView
}

// firstAnswer is the capacity that the first answer finds; it grows when an answer
// needs more.
const firstAnswer = 16 << 10

// decodeAdmit makes c the state of a decision about an encoded request. So do the
// others for their requests.
func (c *call) decodeAdmit(request []byte) (Input, error) {
	err := c.admit.Decode(request)
	c.now = c.admit.Now
	return Input{Facts{c}}, err
}

func (c *call) decodeQuery(request []byte) (QueryInput, error) {
	err := c.query.Decode(request)
	c.now = c.query.Now
	return QueryInput{Facts{c}}, err
}

func (c *call) decodeConnect(request []byte) (ConnectInput, error) {
	err := c.connect.Decode(request)
	c.now = c.connect.Now
	return ConnectInput{Facts{c}}, err
}

func (c *call) decodePush(request []byte) (PushInput, error) {
	err := c.push.Decode(request)
	c.now = c.push.Now
	return PushInput{Facts{c}}, err
}
