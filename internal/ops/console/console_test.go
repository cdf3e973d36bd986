package console

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return w.Result()
}

func read(t *testing.T, name string) string {
	t.Helper()
	return string(testkit.Must(fs.ReadFile(assets, name))(t))
}

// Whatever a file refers to is there, as what it is, and under the policy.
func TestAllThatIsReferredToIsServed(t *testing.T) {
	refer := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from '([^']+)'|src: '([^']+)'`)
	kinds := map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
	seen := map[string]bool{}
	var follow func(url string)
	follow = func(url string) {
		if seen[url] {
			return
		}
		seen[url] = true
		res := get(t, url)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", url, res.Status, err)
		}
		ext := path.Ext(url)
		if ext == "" {
			ext = ".html"
		}
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, kinds[ext]) || kinds[ext] == "" {
			t.Errorf("%s is served as %q", url, got)
		}
		if res.Header.Get("Content-Security-Policy") != policy || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", url, res.Header)
		}
		if strings.Contains(url, "/uplot/") {
			return
		}
		for _, m := range refer.FindAllStringSubmatch(string(body), -1) {
			follow(path.Join(path.Dir(url+"x"), m[1]+m[2]+m[3]))
		}
	}
	follow("/console/")
	if len(seen) < 20 {
		t.Errorf("only %d files are referred to: %v", len(seen), seen)
	}
	testkit.OK(t, fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		url := strings.Replace(name, "assets/", "/console/", 1)
		if err == nil && !d.IsDir() && !seen[url] && path.Base(url) != "index.html" {
			t.Errorf("nothing refers to %s", name)
		}
		return err
	}))
}

// What a browser has it need not get again.
func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	tag := get(t, "/console/main.js").Header.Get("ETag")
	r := httptest.NewRequest(http.MethodGet, "/console/main.js", nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	if tag == "" || w.Code != http.StatusNotModified {
		t.Errorf("with the tag %q: %d", tag, w.Code)
	}
}

// The texts are in the words that operators use.
func TestTextsArePlainEnglish(t *testing.T) {
	never := regexp.MustCompile(`At once|at once'|is alone|Nothing is known|It was refused|begins again|were lost on the way|'bar to|Go on|Asking the gateway|while all ask|No decision is like that|has that in its name|'G'`)
	testkit.OK(t, fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if found := never.FindString(read(t, name)); found != "" {
			t.Errorf("%s says %q", name, found)
		}
		return nil
	}))
}

// No name may become more than text, and nothing may be asked of elsewhere.
func TestAssetsParseNoHTMLAndNameNoHost(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\son\w+="|\sstyle="|<script>|https?://`)
	testkit.OK(t, fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := strings.ReplaceAll(read(t, name), "http://www.w3.org/2000/svg", "")
		if found := never.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		return nil
	}))
}
