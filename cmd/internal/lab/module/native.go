package module

import (
	"context"
	"errors"
	"fmt"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// Native is a strategy of Go that runs without WebAssembly: it has no fuel and no memory
// of its own, and is several times as fast.
type Native struct {
	name  string
	text  string // manifest
	make  func() strategy.Strategy
	value map[string]any
}

// NewNative returns a strategy that make returns a new one of, configured with values.
func NewNative(name, manifestText string, values map[string]any, make func() strategy.Strategy) *Native {
	return &Native{name, manifestText, make, values}
}

// About says what it is.
func (n *Native) About() result.Module { return result.Module{Name: n.name} }

// New makes one.
func (n *Native) New(context.Context) (engine.Instance, error) {
	m, err := manifest.Parse([]byte(n.text))
	if err != nil {
		return nil, err
	}
	settings, err := m.Resolve(n.value)
	if err != nil {
		return nil, err
	}
	s := n.make()
	if err := strategy.Configure(s, settings); err != nil {
		return nil, err
	}
	return &nativeInstance{s: s, call: strategy.NewCall(silent{})}, nil
}

type silent struct{}

func (silent) Log(strategy.Level, string) {}

type nativeInstance struct {
	s      strategy.Strategy
	call   *strategy.Call
	answer []byte
	ended  bool
}

var errEnded = errors.New("the strategy has ended")

func (i *nativeInstance) Call(_ context.Context, _ guest.Func, request []byte, _ int64) (answer []byte, _ int64, err error) {
	if i.ended {
		return nil, 0, errEnded
	}
	defer func() {
		if p := recover(); p != nil {
			i.ended = true
			answer, err = nil, fmt.Errorf("the strategy panicked: %v", p)
		}
	}()
	i.answer, err = i.call.Step(i.s, request, i.answer[:0])
	return i.answer, 0, err
}

func (i *nativeInstance) Memory() int64 { return 0 }
func (i *nativeInstance) Close()        { i.ended = true }
