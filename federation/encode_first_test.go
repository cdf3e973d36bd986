package federation

import (
	"os"
	"testing"
)

// TestDecode_FirstRelease: an account that the first release wrote goes on, and what its nodes have used counts.
func TestDecode_FirstRelease(t *testing.T) {
	text, err := os.ReadFile("testdata/first.account")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Decode(text, DefaultRules())
	if err != nil {
		t.Fatal(err)
	}
	r := a.Beat(1_700_000_000_500, "first", 2, &Beat{
		Node: "a", Instance: "a", Seq: 3, Acked: 2, Epoch: a.Epoch, Sent: a.Now, Limits: Amounts{600_000, 600}, Held: Amounts{300, 1}, Format: Format,
	})
	if r.Status != Granted || r.Used != (Amounts{14_600, 16}) || r.Format != 1 {
		t.Errorf("%s, used %v, format %d", r.Status, r.Used, r.Format)
	}
}
