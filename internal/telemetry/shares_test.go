package telemetry

import "testing"

func TestShare_RoundingErrorsAreZero(t *testing.T) {
	for of, want := range map[float64]float64{9.84e-19: 0, -2e-17: 0, 0: 0, 1e-6: 1e-6, 0.25: 0.25} {
		if got := share(of); got != want {
			t.Errorf("share(%g) = %g, want %g", of, got, want)
		}
	}
}
