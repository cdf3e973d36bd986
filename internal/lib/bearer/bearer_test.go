package bearer

import "testing"

func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:9090": true, "127.0.0.1:9090": true, "127.8.0.1": true, "[::1]:9090": true, "[::1]": true,
		"": false, "evil.example:9090": false, "localhost.evil.example": false, "10.0.0.1:9090": false, "localhost:": false,
		"localhost:9090/#@evil.example": false, "localhost:9090@evil.example": false, "evil.example/localhost:1": false, "[::1%25eth0]:9090": false, "localhost:99999": false,
	} {
		if got := Local(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
