package cluster

import "time"

// deleted stands for whoever deletes the ConfigMap: the API server does not tell.
const deleted = "(deleted)"

// rivals remembers who overwrites the list, so that repair does not become a fight.
type rivals struct {
	rule Rival
	by   map[string]*rivalry
}

// rivalry is with one manager: when its latest overwrites were repaired, and whether it keeps writing.
type rivalry struct {
	repairs   []time.Time
	contested bool
}

func newRivals(rule Rival) *rivals { return &rivals{rule: rule, by: map[string]*rivalry{}} }

// wait is how long a repair of what the manager wrote must wait; 0 is not at all.
func (r *rivals) wait(manager string, now time.Time) time.Duration {
	if !r.contested(manager, now) {
		return 0
	}
	repairs := r.by[manager].repairs
	return max(0, repairs[len(repairs)-1].Add(r.rule.Backoff).Sub(now))
}

// contested reports whether the manager keeps writing. It is forgiven when it was quiet for twice the backoff.
func (r *rivals) contested(manager string, now time.Time) bool {
	v := r.by[manager]
	if v == nil {
		return false
	}
	if now.Sub(v.repairs[len(v.repairs)-1]) >= 2*r.rule.Backoff {
		delete(r.by, manager)
		return false
	}
	return v.contested
}

// repaired records a repair of what the manager wrote.
func (r *rivals) repaired(manager string, now time.Time) {
	v := r.by[manager]
	if v == nil {
		v = &rivalry{}
		r.by[manager] = v
	}
	v.repairs = append(v.repairs, now)
	if extra := len(v.repairs) - r.rule.Overwrites; extra > 0 {
		v.repairs = v.repairs[extra:]
	}
	if len(v.repairs) == r.rule.Overwrites && now.Sub(v.repairs[0]) <= r.rule.Window {
		v.contested = true
	}
}

// all lists the managers that keep writing.
func (r *rivals) all(now time.Time) []string {
	var names []string
	for name := range r.by {
		if r.contested(name, now) {
			names = append(names, name)
		}
	}
	return names
}
