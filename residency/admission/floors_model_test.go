package admission

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFloorsModel: users that stay and users that take turns come, have their turns and leave at random. No device is over its
// limit. Whoever has begun to take turns has its next one after a bounded number of others, and so has everyone who
// could have memory. Whoever waits has memory once those that came before have left, and all is free in the end.
func TestFloorsModel(t *testing.T) {
	waited, turns, stayed := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, x: NewFloors([]int64{10, 10}[:rapid.IntRange(1, 2).Draw(t, "devices")])}
		if rapid.Bool().Draw(t, "with what is common") {
			m.common = NewCommon(m.floors(4))
		}
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			m.act()
			m.check()
		}
		m.served()
		for len(m.users) > 0 {
			u := m.users[0]
			if had := m.rounds(); m.common == nil && !had[u] { // who needs only what others have in common passes who waits
				t.Fatalf("user %d waits, though all who came before have left", u.number)
			}
			if !u.Turns && u.waited {
				stayed++
			}
			m.leave(0)
			m.check()
		}
		waited, turns = waited+m.waited, turns+m.turns
		if bytes, waiting := m.x.Reserved(); slices.Max(bytes) != 0 || waiting != 0 {
			t.Fatalf("%d bytes are left, and %d wait", bytes, waiting)
		}
	})
	if t.Logf("%d waited, %d of them to stay; %d turns", waited, stayed, turns); waited == 0 || turns == 0 || stayed == 0 {
		t.Error("nothing is shown")
	}
}

// model is users of Floors, in the order in which they came.
type model struct {
	t      *rapid.T
	x      *Floors
	common *Common // nil: there is none
	users  []*modelUser

	came, waited, turns int
}

type modelUser struct {
	*Reservation
	number int
	waited bool
	begun  bool // it has had memory
}

// holds reports whether a user has memory.
func (u *modelUser) holds() bool { return !u.Waits() }

// floors are random ones of each device.
func (m *model) floors(most int64) (f []int64) {
	for range m.x.limits {
		f = append(f, rapid.Int64Range(0, most).Draw(m.t, "bytes"))
	}
	return f
}

// act does something at random.
func (m *model) act() {
	pick := func() int { return rapid.IntRange(0, len(m.users)-1).Draw(m.t, "user") }
	switch action := rapid.SampledFrom([]string{"come", "come", "turn", "turn", "leave"}).Draw(m.t, "action"); {
	case action == "come" || len(m.users) == 0:
		c := Claim{Floors: m.floors(6), Turns: rapid.Bool().Draw(m.t, "turns")}
		if m.common != nil && rapid.Bool().Draw(m.t, "common") {
			c.Common = m.common
		}
		r, err := m.x.Join(c)
		if err != nil {
			m.t.Fatal(err)
		}
		m.came++
		u := &modelUser{Reservation: r, number: m.came}
		if u.waited = !u.holds(); u.waited {
			m.waited++
		}
		m.users = append(m.users, u)
	case action == "turn":
		m.turn(m.users[pick()])
	default:
		m.leave(pick())
	}
}

// turn ends the turn of a user, if another one gets its memory.
func (m *model) turn(u *modelUser) {
	if !u.holds() {
		return
	}
	wanted, due := u.Wanted(), m.x.Due(u.Reservation)
	if due && !wanted || due != m.x.Yield(u.Reservation) {
		m.t.Fatal("who is due is not asked for its memory, or does not give it away, or who is not does")
	}
	if !u.holds() {
		m.turns++
	}
}

// leave takes a user away, which may wait.
func (m *model) leave(i int) {
	u := m.users[i]
	m.users = slices.Delete(m.users, i, i+1)
	held := u.holds()
	m.x.Release(u.Reservation)
	m.x.Release(u.Reservation)
	if held != (u.err == nil) || !held && !errors.Is(u.err, errReleased) {
		m.t.Fatalf("a user that has memory is %v leaves: %v", held, u.err)
	}
}

// that are the reservations of users.
func (m *model) that(are func(u *modelUser) bool) (list []*Reservation) {
	for _, u := range m.users {
		if are(u) {
			list = append(list, u.Reservation)
		}
	}
	return list
}

// check compares what is reserved with what the users have.
func (m *model) check() {
	bytes, waiting := m.x.Reserved()
	held := m.that((*modelUser).holds)
	for i, limit := range m.x.limits {
		if want := together(i, held...); bytes[i] != want || want > limit {
			m.t.Fatalf("%d bytes are reserved, the users have %d", bytes, want)
		}
	}
	if waiting != len(m.users)-len(held) {
		m.t.Fatalf("%d wait", waiting)
	}
	for _, u := range m.users {
		u.begun = u.begun || u.holds()
	}
}

// rounds ends the turn of everyone once for each user. It gives those that have had memory meanwhile.
func (m *model) rounds() map[*modelUser]bool {
	had := map[*modelUser]bool{}
	for range len(m.users) + 1 {
		var over []*modelUser
		for _, u := range m.users {
			if u.holds() {
				had[u], over = true, append(over, u)
				m.x.Due(u.Reservation)
			}
		}
		for _, u := range over {
			m.turn(u)
		}
		m.check()
	}
	return had
}

// served wants everyone who could have memory to get it.
func (m *model) served() {
	had := m.rounds()
	stay := m.that(func(u *modelUser) bool { return !u.Turns && u.holds() })
	turns := m.that(func(u *modelUser) bool { return u.Turns && had[u] })
	for k, u := range m.users {
		switch {
		case had[u]:
		case u.begun:
			m.t.Fatalf("user %d has begun, and waits", u.number)
		case !m.excluded(u, stay, turns) && !m.passed(u, m.users[:k], had):
			m.t.Fatalf("user %d fits, and waits", u.number)
		}
	}
}

// excluded reports whether a user does not fit beside those who stay and, if it stays, each of those that take turns.
func (m *model) excluded(u *modelUser, stay, turns []*Reservation) bool {
	for i, limit := range m.x.limits {
		all := append(slices.Clone(stay), u.Reservation)
		excluded := together(i, all...) > limit
		for _, t := range turns {
			excluded = excluded || !u.Turns && together(i, append(slices.Clone(all), t)...) > limit
		}
		if excluded && u.has(i) {
			return true
		}
	}
	return false
}

// passed reports whether one that came before a user waits, which that would have to pass.
func (m *model) passed(u *modelUser, before []*modelUser, had map[*modelUser]bool) bool {
	for _, o := range before {
		for i := range m.x.limits {
			if !had[o] && u.has(i) && o.has(i) && !(u.Turns && o.Turns) {
				return true
			}
		}
	}
	return false
}
