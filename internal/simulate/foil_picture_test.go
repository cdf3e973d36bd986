package simulate

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

var update = flag.Bool("update", false, "draw the pictures in docs/images anew")

// TestTurnPicture draws the turn of a minute under a fixed minute and under
// llmgov. With -update, it writes the picture in the docs.
func TestTurnPicture(t *testing.T) {
	s := parsed(t, turn)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", sheetWidth, sheetHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for row, a := range []admission{admissions[0], ours} {
		p := newPlan(s, 1)
		w := newWorld(p, a.gate)
		testkit.OK(t, w.run(context.Background(), 0, func(time.Duration) {}))
		drawRow(&b, row, a.name, p, &w.trace)
	}
	b.WriteString("</svg>\n")

	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	if *update {
		testkit.OK(t, os.WriteFile("../../docs/images/turn.svg", []byte(b.String()), 0o644))
	}
}

const (
	sheetWidth, sheetHeight = 900, 480
	drawFrom, drawTo        = 90 * time.Second, 270 * time.Second
	drawEvery               = 5 * time.Second
	legendAt                = 127 * time.Second // where no bar is
)

var drawColors = []string{"#4477aa", "#ee7733"}

// panel is one system of axes: x is time, y goes from 0 to top.
type panel struct {
	out        io.Writer
	x, y, w, h float64
	top        float64
}

func (p panel) at(d time.Duration) float64 {
	return p.x + p.w*(d-drawFrom).Seconds()/(drawTo-drawFrom).Seconds()
}
func (p panel) level(v float64) float64 { return p.y + p.h*(1-v/p.top) }

// axes draws the frame, with ticks at multiples of step.
func (p panel) axes(title string, step float64) {
	fmt.Fprintf(p.out, `<text x="%.0f" y="%.0f" font-weight="bold">%s</text>`+"\n", p.x, p.y-12, title)
	for v := 0.0; v <= p.top; v += step {
		fmt.Fprintf(p.out, `<path d="M%.1f %.1fH%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%g×</text>`+"\n",
			p.x, p.level(v), p.x+p.w, p.x-6, p.level(v)+4, v)
	}
	for at := drawFrom; at <= drawTo; at += 30 * time.Second {
		fmt.Fprintf(p.out, `<text x="%.1f" y="%.1f" text-anchor="middle">%.0f s</text>`+"\n", p.at(at), p.y+p.h+16, at.Seconds())
	}
}

// drawRow draws what each tenant received in steps of five seconds, and the sum
// over the last minute.
func drawRow(out io.Writer, row int, name string, p *plan, t *Trace) {
	top := 44 + float64(row)*(sheetHeight/2)
	m := measures(&p.Pool)[0]

	left := panel{out, 44, top, 390, 150, 12}
	left.axes(name+": tokens received, over what the limit is in that time", 3)
	got := newGrid(drawFrom, drawEvery, drawTo, len(p.tree.Leaves))
	p.received(t, m, got)
	for k, cells := range got.cells {
		base := 0.0
		for leaf, tokens := range cells {
			v := tokens / (m.perSecond() * drawEvery.Seconds())
			x := left.at(drawFrom + time.Duration(k)*drawEvery)
			if v > 0 {
				fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
					x+0.5, left.level(base+v), left.w*drawEvery.Seconds()/(drawTo-drawFrom).Seconds()-1, left.h*v/left.top, drawColors[leaf])
			}
			base += v
		}
	}
	for leaf, l := range p.tree.Leaves {
		y := left.y + 14 + 18*float64(leaf)
		fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="11" height="11" fill="%s"/><text x="%.1f" y="%.1f">%s, weight %d</text>`+"\n",
			left.at(legendAt), y-10, drawColors[leaf], left.at(legendAt)+16, y, l.Name, l.Weight/escrow.WeightOne)
	}

	right := panel{out, 500, top, 380, 150, 2}
	right.axes(name+": sum of the last 60 s, over the limit", 0.5)
	var minute rolling
	next := 0
	path := ""
	for at := drawFrom - escrow.Window; at <= drawTo; at += 500 * time.Millisecond {
		for ; next < len(t.Events) && t.Events[next].At <= at; next++ {
			if e := &t.Events[next]; e.Kind == Used {
				minute.add(e.At, e.Request, e.Tokens)
			}
		}
		minute.leave(at)
		if at >= drawFrom {
			path += fmt.Sprintf(" %.1f,%.1f", right.at(at), right.level(float64(minute.sum)/m.limit))
		}
	}
	fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="#333" stroke-width="2"/>`+"\n", strings.TrimSpace(path))
	fmt.Fprintf(out, `<path d="M%.1f %.1fH%.1f" stroke="#cc3311" stroke-width="1.5" stroke-dasharray="6 4"/><text x="%.1f" y="%.1f" fill="#cc3311" text-anchor="end">the limit</text>`+"\n",
		right.x, right.level(1), right.x+right.w, right.x+right.w-4, right.level(1)-6)
}
