// A table to sort and to leaf through, of plain elements: pages have up to ten of them, with hundreds of cells. Whatever
// comes from data is put in as text.
import { toRaw } from "vue";

const SIZES = [10, 15, 25, 50, 0]; // rows of a page; 0: all
const compared = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;

// What is not known comes last, whichever way.
function ordered(rows, name, sign) {
  const known = (row) => row[name] !== null && row[name] !== undefined && row[name] !== "";
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : compared(a, b));
  const sorted = rows.filter(known).sort((a, b) => sign * compare(a[name], b[name]));
  return [...sorted, ...rows.filter((row) => !known(row))];
}

export default {
  template: `<div class="fp-table">
    <div class="fp-table-rows"><table :aria-label="label">
      <thead><tr>
        <th v-for="one in columns" scope="col" :class="{right: one.right}" :aria-sort="direction(one)">
          <button type="button" @click="sort(one)">{{ one.label }}</button></th>
      </tr></thead>
      <tbody>
        <tr v-for="row in shown" :key="row.__key">
          <td v-for="one in columns" :class="{right: one.right}" :title="title(row, one.name)">
            <a v-if="row[one.name + '__href']" :href="row[one.name + '__href']">{{ text(row, one.name) }}</a>
            <span v-else :class="row[one.name + '__class']">{{ text(row, one.name) }}</span></td>
        </tr>
      </tbody>
    </table></div>
    <div class="fp-table-foot" v-if="rows.length > least">
      <label>Rows <select v-model.number="size">
        <option v-for="one in sizes" :value="one">{{ one || "all" }}</option></select></label>
      <span>{{ first + 1 }} to {{ first + shown.length }} of {{ rows.length }}</span>
      <button type="button" class="fp-btn" aria-label="Page before" :disabled="page < 1" @click="at = page - 1">‹</button>
      <button type="button" class="fp-btn" aria-label="Next page" :disabled="page >= pages - 1" @click="at = page + 1">›
      </button>
    </div>
  </div>`,
  props: {
    label: String,
    columns: Array, // name, label, and whether it stands right
    rows: Array, // __key, and of each column its value, and where they differ from it __text, __title, __href, __class
    pageRows: Number,
  },
  data() {
    return { by: null, sign: 1, at: 0, size: this.pageRows };
  },
  computed: {
    least: () => SIZES[0],
    sizes: () => SIZES,
    pages() {
      return this.size ? Math.ceil(this.rows.length / this.size) : 1;
    },
    page() {
      return Math.max(0, Math.min(this.at, this.pages - 1));
    },
    first() {
      return this.page * this.size;
    },
    sorted() {
      const rows = toRaw(this.rows); // each cell of a watched row costs as much as what it shows
      return this.by === null ? rows : ordered(rows, this.by, this.sign);
    },
    shown() {
      return this.size ? this.sorted.slice(this.first, this.first + this.size) : this.sorted;
    },
  },
  methods: {
    text: (row, name) => row[name + "__text"] ?? row[name],
    title: (row, name) => row[name + "__title"] ?? (typeof row[name] === "string" ? row[name] : null),
    direction(column) {
      return column.name !== this.by ? null : this.sign > 0 ? "ascending" : "descending";
    },
    sort(column) {
      this.sign = column.name === this.by ? -this.sign : 1;
      this.by = column.name;
      this.at = 0;
    },
  },
};
