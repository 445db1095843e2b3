package guest

import (
	"fmt"
	"slices"
	"testing"

	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// witness are facts that record what else was asked.
type witness struct {
	fakeFacts
	told []string
}

func (w *witness) Contained(name, member []byte, yes, known bool) {
	w.told = append(w.told, fmt.Sprintf("%s in %s: %v %v", member, name, yes, known))
}

func (w *witness) Used(capability string) { w.told = append(w.told, capability) }

// TestWitness records what a verdict depends on beside facts, each time.
func TestWitness(t *testing.T) {
	git := func(what string, parameters int) hostCall {
		return hostCall{what, funcType(wasmtest.I32, parameters), consts(make([]int32, parameters)...)}
	}
	for _, call := range append(slices.Clone(hostCalls), git(abi.CapGitHas, 4), git(abi.CapGitRef, 6)) {
		want := []string{call.name, call.name}
		switch call.name {
		case abi.CapSetsContains:
			want = []string{"member in authors: true true", "member in authors: true true"}
		case abi.CapMetric, abi.CapStoreGet, abi.CapHeldGet, abi.CapStoreReferenced:
			want = nil
		}
		if call.name == abi.CapSetsContains {
			call.args = consts(messageAddr, 7, messageAddr+7, 6)
		}
		g := call.guest(2)
		if call.name == abi.CapSetsContains {
			g.message = []byte("authorsmember")
		}
		m := mustLoad(t, g.assemble(), func(o *Options) {
			o.State, o.Sets = newState(t), vectorSets{"authors": {"member"}}
		})
		w := &witness{}
		if _, err := ask(t, m, item(1, ""), w); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
		if !slices.Equal(w.told, want) {
			t.Errorf("%s: told %q, want %q", call.name, w.told, want)
		}
	}
}
