package module

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
)

func TestConfigOnItsWayIntoAModule(t *testing.T) {
	cfg, err := Reread(abi.Config{Service: abi.Service{Domain: "relay.example.com", PRs: true, Operator: [32]byte{31: 1}}, Settings: []abi.Setting{
		{Key: "text", Strings: []string{"a"}}, {Key: "number", Ints: []int64{-7}}, {Key: "numbers", Ints: []int64{1, 2}},
		{Key: "flag", Bools: []bool{true}}, {Key: "rate", Floats: []float64{0.5}}, {Key: "texts", Strings: []string{"x", ""}}, {Key: "none"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.String("text") != "a" || cfg.Int("number") != -7 || !slices.Equal(cfg.Ints("numbers"), []int64{1, 2}) ||
		!cfg.Bool("flag") || cfg.Float("rate") != 0.5 || !slices.Equal(cfg.Strings("texts"), []string{"x", ""}) || cfg.Int("none") != 0 ||
		cfg.Service() != (Service{Domain: "relay.example.com", PRs: true, Operator: [32]byte{31: 1}}) {
		t.Errorf("%+v", cfg)
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "no setting nope") {
			t.Errorf("a key that the manifest lacks: %v, want a panic that names it", r)
		}
	}()
	cfg.Int("nope")
}

func TestWrongValue(t *testing.T) {
	const want = `config key has "a\"b\\c?é": want a number`
	if got := WrongValue("key", "a\"b\\c\né", "a number").Error(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
