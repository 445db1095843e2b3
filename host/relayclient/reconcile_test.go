package relayclient

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

func set(list ...byte) *negentropy.Set {
	var b negentropy.Builder
	for _, n := range list {
		b.Add(negentropy.Item{CreatedAt: uint64(n), ID: host.ID{n}})
	}
	return b.Build()
}

var bounds = negentropy.ClientLimits{IDs: 100, Rounds: 10}

// answer answers a NEG-OPEN or NEG-MSG as a server over a set.
func (f *fake) answer(s *negentropy.Set) {
	m, err := wire.ParseMessage([]byte(f.want(`["NEG-`)), &wire.DefaultLimits)
	if err != nil {
		f.t.Error(err)
		return
	}
	server, err := negentropy.NewServer(s, 0)
	if err != nil {
		f.t.Error(err)
		return
	}
	reply, err := server.Reconcile(m.Neg)
	if err != nil {
		f.t.Error(err)
	}
	f.say(`["NEG-MSG","%s","%s"]`, m.SubID, hex.EncodeToString(reply))
}

func TestReconcile(t *testing.T) {
	proof := event(t, 9)
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","c"]`)
		f.want(`["NEG-OPEN","n1",{"kinds":[1]},"`)
		f.say(`["NEG-ERR","n1","auth-required: who"]`)
		f.want(`["AUTH",`)
		f.say(`["OK","%s",true,""]`, proof.ID)
		f.say(`["NEG-MSG","old","61"]`)
		f.answer(set(1, 2, 3))
		f.want(`["NEG-CLOSE","n2"]`)
		f.gone()
	}), Options{Prove: func(_, _ string) (*host.Event, error) { return proof, nil }})
	have, need, err := c.Reconcile(soon(t), []byte(`{"kinds":[1]}`), set(2, 4), bounds)
	if err != nil || len(have) != 1 || have[0] != (host.ID{4}) || len(need) != 2 {
		t.Errorf("have %v, need %v, %v", have, need, err)
	}
}

func TestReconcileRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"a notice":  `["NOTICE","unknown cmd"]`,
		"an error":  `["NEG-ERR","n1","blocked: no"]`,
		"closed":    `["CLOSED","n1",""]`,
		"not hex":   `["NEG-MSG","n1","x"]`,
		"malformed": `["NEG-MSG","n1","61ff"]`,
	} {
		t.Run(name, func(t *testing.T) {
			one := event(t, 1)
			c := connect(t, listen(t, func(f *fake) {
				f.want(`["NEG-OPEN","n1",`)
				f.say("%s", answer)
				if strings.Contains(answer, "NEG-MSG") {
					f.want(`["NEG-CLOSE"`)
				}
				f.want(`["EVENT"`)
				f.say(`["OK","%s",true,""]`, one.ID)
			}), Options{})
			if _, _, err := c.Reconcile(soon(t), []byte(`{}`), set(1), bounds); !errors.Is(err, ErrNoNegentropy) {
				t.Errorf("%v", err)
			}
			// The connection can still be used.
			if res, err := c.Publish(soon(t), one); err != nil || !res.OK {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

func TestPublishAll(t *testing.T) {
	var list []*host.Event
	for n := range byte(100) {
		list = append(list, event(t, n+1))
	}
	proof := event(t, 200)
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","c"]`)
		for range publishesAtOnce {
			f.want(`["EVENT",`)
		}
		// The answers come late, and in another order.
		for i := publishesAtOnce - 1; i > 0; i-- {
			f.say(`["OK","%s",%v,"duplicate: x"]`, list[i].ID, i != 5)
		}
		f.say(`["OK","%s",false,"auth-required: who"]`, list[0].ID)
		for i := publishesAtOnce; i < 100; i++ {
			f.want(`["EVENT",`)
			f.say(`["OK","%s",true,""]`, list[i].ID)
		}
		f.want(`["AUTH",`)
		f.say(`["OK","%s",true,""]`, proof.ID)
		f.want(`["EVENT",`)
		f.say(`["OK","%s",true,""]`, list[0].ID)
		f.gone()
	}), Options{Prove: func(_, _ string) (*host.Event, error) { return proof, nil }})
	answered, refused := map[host.ID]int{}, 0
	err := c.PublishAll(soon(t), list, func(e *host.Event, r Result) {
		answered[e.ID]++
		if !r.OK {
			refused++
		}
	})
	if err != nil || len(answered) != 100 || refused != 1 {
		t.Errorf("%d answers, %d refusals, %v", len(answered), refused, err)
	}
}
