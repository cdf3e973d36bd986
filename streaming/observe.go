package streaming

import "io"

// observeLocked meters an event and decides which part of it goes out.
func (b *Body) observeLocked(ev Event) Kind {
	b.out = ev.Raw
	dropLF := b.dropLF
	b.dropLF = false
	if ev.Oversize {
		b.observePieceLocked(ev.Raw, !b.scan.over)
		return Opaque
	}
	if ev.Data == nil && ev.Error != nil {
		ev.Name = []byte("error")
		ev.Data = ev.Error
	}
	if ev.Data == nil {
		if dropLF && string(ev.Raw) == "\n" {
			b.out = nil
		}
		return KeepAlive
	}
	b.unread = false
	meter := &b.meter
	if meter.over() { // events behind the end count for nothing, and are only judged, lest usage go out
		meter = new(Meter)
	} else {
		b.events++
	}
	kind := meter.Observe(ev.Name, ev.Data)
	if kind == Delta {
		meter.parts.frame.set(ev.Raw, meter.parts.text)
	}
	empty := kind == Final && !b.meter.done && !b.meter.begun()
	if empty { // the stream ends here, whatever upstream does and whatever came along
		b.readErr = io.EOF
		b.scan.consume(len(b.scan.in))
	}
	if kind == UsageOnly && b.opt.WithholdUsage || empty && b.opt.ErrorEvent != nil {
		b.out = nil
		b.dropLF = ev.Raw[len(ev.Raw)-1] == '\r'
	}
	return kind
}

// skimLocked meters the events ahead that are like the remembered one, and lets them go out, as many as begin within
// so many bytes.
func (b *Body) skimLocked(room int) {
	ahead := b.scan.ahead()
	n := 0
	for n < room && !b.meter.over() {
		rest := ahead[n:]
		length := b.meter.skim(rest[:min(len(rest), b.scan.maxEvent())])
		if length == 0 {
			break
		}
		n += length
		b.events++
	}
	if n > 0 {
		b.out = ahead[:n]
		b.scan.consume(b.scan.at + n)
		b.dropLF = false
		b.unread = false
	}
}

// observePieceLocked meters a piece of an event that is too large to be kept.
func (b *Body) observePieceLocked(raw []byte, last bool) {
	b.unread = true
	if b.large == nil {
		b.large = newLarge()
	}
	b.large.feed(raw)
	if last {
		b.unread = false
		if !b.meter.over() {
			b.events++
			b.unread = !b.meter.observeLarge(&b.large.find)
		}
		b.large = nil
	}
}
