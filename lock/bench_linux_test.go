package lock

import "testing"

func BenchmarkApply(b *testing.B) {
	p := newPod(b)
	rules, err := Build(testConfig)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Apply(rules); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.unlock()
		b.StartTimer()
	}
}

func BenchmarkRenew(b *testing.B) {
	p := newPod(b)
	if err := p.lockAndLend(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := p.Renew(Lease); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p, record := lockedPod(b)
	for b.Loop() {
		if err := p.Verify(record); err != nil {
			b.Fatal(err)
		}
	}
}
