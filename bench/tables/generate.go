package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// table is an invented table: rows to train on, and others to judge by.
type table struct {
	name, label, task string
	header            string
	row               func(r *rand.Rand, i int) []string
	missing           map[int]float64 // by column, the share of its rows without a value
	words             []string        // that stand for a missing value
}

// rows is how many rows train, and how many judge.
const rows = 2000

// tables are the three. What is to be learnt has parts that add up, which a linear model finds, and
// parts that no sum has: something that counts in one group alone, or in the middle, or at both ends.
var tables = []table{
	{
		name: "passengers", label: "survived", task: "classification",
		header:  "passenger,name,class,sex,age,siblings,fare,port,boarded,survived",
		row:     passenger,
		missing: map[int]float64{4: 0.2, 6: 0.02, 7: 0.01}, words: []string{"", "NA"},
	},
	{
		name: "customers", label: "churn", task: "classification",
		header:  "customer,signed_up,plan,country,age,usage,support_calls,paperless,churn",
		row:     customer,
		missing: map[int]float64{2: 0.03, 4: 0.08, 5: 0.02}, words: []string{"", "?"},
	},
	{
		name: "houses", label: "price", task: "regression",
		header:  "house,address,district,area,rooms,built,condition,garden,sold,price",
		row:     house,
		missing: map[int]float64{3: 0.01, 5: 0.1, 6: 0.05}, words: []string{"", "null"},
	},
}

// files are the rows to train on and those to judge by, as CSV.
func (t table) files(seed uint64) (train, test []byte) {
	r := rand.New(rand.NewPCG(seed, 28))
	return t.write(r, 0), t.write(r, rows)
}

func (t table) write(r *rand.Rand, from int) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, t.header)
	for i := range rows {
		row := t.row(r, from+i)
		for c := range row {
			if r.Float64() < t.missing[c] {
				row[c] = t.words[r.IntN(len(t.words))]
			}
		}
		fmt.Fprintln(&b, strings.Join(row, ","))
	}
	return b.Bytes()
}

// passenger: sex and being a child count, but not in the third class, and men of some ages are asked
// to row.
func passenger(r *rand.Rand, i int) []string {
	class, sex := pick(r, "first", "second", "third", "third"), pick(r, "female", "male", "male")
	age := math.Round(math.Abs(30+14*r.NormFloat64()) + 0.5)
	siblings := r.IntN(3) * r.IntN(3)
	fare := map[string]float64{"first": 80, "second": 22, "third": 9}[class] * math.Exp(0.4*r.NormFloat64())
	score := map[string]float64{"first": 0.5, "second": -0.2, "third": -0.8}[class] - 0.3*float64(siblings)
	if sex == "female" {
		score += map[string]float64{"first": 3, "second": 3, "third": 0.2}[class]
	}
	if age < 14 && class != "third" {
		score += 3
	}
	if sex == "male" && age > 20 && age < 35 {
		score += 2.2
	}
	title := map[string]string{"female": "Mrs.", "male": "Mr."}[sex]
	return []string{
		fmt.Sprint("P", 1000+i), strings.Join([]string{title, name(r), name(r), name(r)}, " "), class, sex, fmt.Sprint(age), fmt.Sprint(siblings),
		fmt.Sprintf("%.2f", fare), pick(r, "Southampton", "Southampton", "Cherbourg", "Queenstown"),
		day(r, 1912, 60), yes(r, score-0.2),
	}
}

// customer: usage counts on the metered plan alone, and those who came a short time ago or a long
// one leave.
func customer(r *rand.Rand, i int) []string {
	plan := pick(r, "flat", "flat", "metered", "metered", "family")
	days := r.IntN(1200)
	usage := math.Exp(2.5 + 0.7*r.NormFloat64())
	calls, age := r.IntN(4)+r.IntN(4), 18+r.IntN(62)
	score := map[string]float64{"flat": 0.4, "metered": -0.3, "family": -1.2}[plan] + 0.45*float64(calls-3) - 0.02*float64(age-48)
	if plan == "metered" {
		score += 2.5 * (math.Log(usage) - 2.5)
	}
	u := float64(days-600) / 600
	score += 3.5 * (u*u - 0.33)
	return []string{
		fmt.Sprint("K", 1000+i), time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, days).Format("2006-01-02"), plan,
		pick(r, "Spain", "Chile", "Norway", "Kenya", "Japan"), fmt.Sprint(age), fmt.Sprintf("%.1f", usage), fmt.Sprint(calls),
		pick(r, "yes", "no"), yes(r, score),
	}
}

// house: what a square metre costs depends on the district and the condition, and the newest and the
// oldest houses cost most.
func house(r *rand.Rand, i int) []string {
	district := pick(r, "Harbour", "Old Town", "North", "North", "Mill Hill")
	area := math.Round(40 + 160*r.Float64())
	rooms := int(area/28) + r.IntN(2)
	built := 1900 + r.IntN(124)
	condition := pick(r, "poor", "good", "good", "new")
	garden := pick(r, "yes", "no")
	metre := map[string]float64{"Harbour": 4600, "Old Town": 3600, "North": 1900, "Mill Hill": 2500}[district]
	u := float64(built-1962) / 62
	price := area*metre*(1+map[string]float64{"poor": -0.2, "good": 0, "new": 0.15}[condition]) + 90000*(u*u-0.33)
	if garden == "yes" {
		price += 25000
	}
	price += 30000 * r.NormFloat64()
	return []string{
		fmt.Sprint("H", 1000+i), strings.Join([]string{fmt.Sprint(1 + r.IntN(200)), name(r), pick(r, "Street", "Road", "Lane")}, " "), district,
		fmt.Sprint(area), fmt.Sprint(rooms), fmt.Sprint(built), condition, garden, day(r, 2023, 500), fmt.Sprintf("%.0f", max(price, 20000)),
	}
}

func pick(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// name is an invented one.
func name(r *rand.Rand) string {
	return pick(r, "Al", "Ber", "Con", "Dor", "El", "Fin", "Gor", "Hol") + pick(r, "a", "en", "i", "o") + pick(r, "bert", "da", "ley", "man", "ra", "son")
}

// day is one of so many from the first of the year, as it is written there.
func day(r *rand.Rand, year, days int) string {
	return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(days)).Format("2006-01-02")
}

// yes is drawn: the odds are e to twice the score. So nobody can know every row.
func yes(r *rand.Rand, score float64) string {
	if r.Float64() < 1/(1+math.Exp(-2*score)) {
		return "yes"
	}
	return "no"
}
